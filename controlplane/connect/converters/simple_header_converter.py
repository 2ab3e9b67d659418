"""Kafka's SimpleHeaderConverter, the default `header.converter` of a worker."""

from collections.abc import Mapping
from typing import Any

from controlplane.connect.data import BYTES, SchemaAndValue, header_text, parse_header
from controlplane.connect.errors import DataError
from controlplane.core.java.json_codec import decode_key, encode_key


class SimpleHeaderConverter:
    """Headers as text. Reading guesses the type of a value from its text."""

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        """Take no settings: there are none."""

    def from_header(self, topic: str, name: str, datum: SchemaAndValue) -> bytes | None:  # noqa: ARG002
        """The text of a header's value in UTF-8; None for null.

        Raises:
            DataError: Connect has no type for the value.
        """
        if datum.value is None:
            return None
        return encode_key(header_text(datum.schema, datum.value))

    def to_header(self, topic: str, name: str, value: bytes | None) -> SchemaAndValue:  # noqa: ARG002
        """The value of a header's text, with its guessed schema.

        A text that is nested too deeply stays bytes, with the schema BYTES.
        """
        if value is None:
            return SchemaAndValue(None)
        try:
            return parse_header(decode_key(value))
        except DataError:
            return SchemaAndValue(value, BYTES)

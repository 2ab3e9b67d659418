"""Kafka's StringConverter: text in UTF-8 or another character set."""

import codecs
import re
from collections.abc import Mapping
from typing import Any, Final

from controlplane.connect.converters.plain_converter import PlainConverter, setting
from controlplane.connect.data import OPTIONAL_STRING, SchemaAndValue
from controlplane.connect.data.string_forms import string_form
from controlplane.connect.errors import ConnectError
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.java.json_codec import decode_key

_ENCODING: Final = ConfigKey(name="converter.encoding", type="STRING", default="UTF-8")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BIG_ENDIAN_MARK: Final = b"\xfe\xff"
_BYTE_ORDER_MARKS: Final = {_BIG_ENDIAN_MARK: "utf-16-be", b"\xff\xfe": "utf-16-le"}


class StringConverter(PlainConverter):
    """Text in UTF-8, or in the character set `converter.encoding`.

    Other values are written as Java's `toString` does: `1.0E10`, `{a=1}`, `Struct{id=7}`.
    """

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:  # noqa: ARG002
        """Take the setting `converter.encoding`.

        Raises:
            ConnectError: there is no such character set.
        """
        name = str(setting(config, _ENCODING))
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError as error:
            raise ConnectError(f"Unsupported encoding {name}") from error

    def encode(self, datum: SchemaAndValue) -> bytes | None:
        """The text of a value; None for null. A character that the character set lacks becomes `?`.

        Raises:
            DataError: the value is or contains bytes.
        """
        if datum.value is None:
            return None
        text = string_form(datum.schema, datum.value)
        if self._encoding.startswith(("utf-16", "utf-32")):
            text = _SURROGATE.sub("\ufffd", text)
        # Java writes UTF-16 in big-endian order; Python would use the order of the machine.
        if self._encoding == "utf-16":
            return _BIG_ENDIAN_MARK + text.encode("utf-16-be") if text else b""
        return text.encode(self._encoding, "replace")

    def decode(self, value: bytes | None) -> SchemaAndValue:
        """The text of the bytes, with the schema OPTIONAL_STRING. Invalid bytes become U+FFFD."""
        if value is None:
            return SchemaAndValue(None, OPTIONAL_STRING)
        if self._encoding == "utf-8":
            return SchemaAndValue(decode_key(value), OPTIONAL_STRING)
        encoding = self._encoding
        if encoding == "utf-16":
            encoding = _BYTE_ORDER_MARKS.get(value[:2], "utf-16-be")
            value = value[2:] if value[:2] in _BYTE_ORDER_MARKS else value
        return SchemaAndValue(value.decode(encoding, "replace"), OPTIONAL_STRING)

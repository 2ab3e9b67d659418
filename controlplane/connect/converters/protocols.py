"""Interfaces of converters of keys, values and headers (`Converter`, `HeaderConverter`)."""

from collections.abc import Mapping
from typing import Any, Protocol

from controlplane.connect.data import SchemaAndValue
from controlplane.core.entry import Headers


class Converter(Protocol):
    """Converts keys or values between Connect's data and the bytes of records.

    A custom converter may read the headers, but must not change them:

        class Reversed:
            def configure(self, config, *, is_key):
                pass

            def from_connect(self, topic, datum, headers=None):
                return None if datum.value is None else datum.value.encode()[::-1]

            def to_connect(self, topic, value, headers=None):
                text = None if value is None else value[::-1].decode()
                return SchemaAndValue(text, OPTIONAL_STRING)
    """

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the settings below the converter's prefix, before anything is converted.

        Raises:
            ConnectError: a setting is invalid.
        """
        ...

    def from_connect(
        self, topic: str, datum: SchemaAndValue, headers: Headers | None = None
    ) -> bytes | None:
        """Encode a key or value; None is a null key or a tombstone.

        Raises:
            DataError: the value cannot be converted.
        """
        ...

    def to_connect(
        self, topic: str, value: bytes | None, headers: Headers | None = None
    ) -> SchemaAndValue:
        """Decode a key or value, with its schema if the bytes or the converter define one.

        Raises:
            DataError: the bytes cannot be converted.
        """
        ...


class HeaderConverter(Protocol):
    """Converts values of headers between Connect's data and bytes (`HeaderConverter`)."""

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the settings below the converter's prefix; `is_key` has no effect here.

        Raises:
            ConnectError: a setting is invalid.
        """
        ...

    def from_header(self, topic: str, name: str, datum: SchemaAndValue) -> bytes | None:
        """Encode a header's value; None is null.

        Raises:
            DataError: the value cannot be converted.
        """
        ...

    def to_header(self, topic: str, name: str, value: bytes | None) -> SchemaAndValue:
        """Decode a header's value, with its schema if there is one.

        Raises:
            DataError: the bytes cannot be converted.
        """
        ...

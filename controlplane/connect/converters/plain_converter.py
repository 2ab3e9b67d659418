"""Base of the converters that convert headers like values: all of Kafka's but one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from controlplane.connect.data import SchemaAndValue
from controlplane.connect.errors import ConnectError
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.validators import check_valid
from controlplane.core.configdef.value_parser import ConfigValue, InvalidValue, parse, text_of
from controlplane.core.entry import Headers


class PlainConverter(ABC):
    """A `Converter` that is also a `HeaderConverter`; it ignores topics and headers."""

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:  # noqa: B027
        """Take the settings; most converters have none.

        Raises:
            ConnectError: a setting is invalid.
        """

    @abstractmethod
    def encode(self, datum: SchemaAndValue) -> bytes | None:
        """Encode a value. The result None is a tombstone, or a header's null value.

        Raises:
            DataError: the value cannot be converted.
        """

    @abstractmethod
    def decode(self, value: bytes | None) -> SchemaAndValue:
        """Decode bytes to a value with its schema; None stands for null.

        Raises:
            DataError: the bytes cannot be converted.
        """

    def from_connect(
        self,
        topic: str,  # noqa: ARG002
        datum: SchemaAndValue,
        headers: Headers | None = None,  # noqa: ARG002
    ) -> bytes | None:
        """Encode a key or value; topic and headers have no effect."""
        return self.encode(datum)

    def to_connect(
        self,
        topic: str,  # noqa: ARG002
        value: bytes | None,
        headers: Headers | None = None,  # noqa: ARG002
    ) -> SchemaAndValue:
        """Decode a key or value; topic and headers have no effect."""
        return self.decode(value)

    def from_header(self, topic: str, name: str, datum: SchemaAndValue) -> bytes | None:  # noqa: ARG002
        """Encode a header's value like a record's value."""
        return self.encode(datum)

    def to_header(self, topic: str, name: str, value: bytes | None) -> SchemaAndValue:  # noqa: ARG002
        """Decode a header's value like a record's value."""
        return self.decode(value)


def setting(config: Mapping[str, Any], key: ConfigKey) -> ConfigValue:
    """The value of a setting, parsed and checked; its default if the config lacks it.

    Raises:
        ConnectError: the value is invalid; the message is Kafka's.
    """
    raw = config.get(key.name, key.default)
    text = raw if raw is None or isinstance(raw, str) else text_of(raw)
    try:
        value = parse(key, text, lambda _name, _class: None)
        check_valid(key.name, key.valid, value)
    except InvalidValue as error:
        raise ConnectError(str(error)) from error
    return value

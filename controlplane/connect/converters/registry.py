"""Converters by the class names of Kafka's converters."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from controlplane.connect.converters.json_converter import JsonConverter
from controlplane.connect.converters.number_converters import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from controlplane.connect.converters.plain_converter import PlainConverter
from controlplane.connect.converters.protocols import Converter, HeaderConverter
from controlplane.connect.converters.simple_header_converter import SimpleHeaderConverter
from controlplane.connect.converters.string_converter import StringConverter
from controlplane.connect.errors import ConnectError
from controlplane.core.java.java_library import trim

_Made = TypeVar("_Made")

_PACKAGE: Final = "org.apache.kafka.connect"

_CONVERTERS: Final[Mapping[str, Callable[[], PlainConverter]]] = {
    f"{_PACKAGE}.json.JsonConverter": JsonConverter,
    f"{_PACKAGE}.storage.StringConverter": StringConverter,
    f"{_PACKAGE}.converters.ByteArrayConverter": ByteArrayConverter,
    f"{_PACKAGE}.converters.BooleanConverter": BooleanConverter,
    f"{_PACKAGE}.converters.ShortConverter": ShortConverter,
    f"{_PACKAGE}.converters.IntegerConverter": IntegerConverter,
    f"{_PACKAGE}.converters.LongConverter": LongConverter,
    f"{_PACKAGE}.converters.FloatConverter": FloatConverter,
    f"{_PACKAGE}.converters.DoubleConverter": DoubleConverter,
}

_HEADER_CONVERTERS: Final[Mapping[str, Callable[[], HeaderConverter]]] = {
    f"{_PACKAGE}.storage.SimpleHeaderConverter": SimpleHeaderConverter,
    **_CONVERTERS,
}


def converter_for(class_name: str) -> Converter:
    """A new converter, not yet configured, by Kafka's class name or alias.

    `org.apache.kafka.connect.json.JsonConverter`, `JsonConverter` and `Json` are the same.

    Raises:
        ConnectError: the registry has no such converter.
    """
    return _find(class_name, _CONVERTERS)()


def header_converter_for(class_name: str) -> HeaderConverter:
    """A new converter of headers, not yet configured, by Kafka's class name or alias.

    Raises:
        ConnectError: the registry has no such converter.
    """
    return _find(class_name, _HEADER_CONVERTERS)()


def _find(class_name: str, converters: Mapping[str, Callable[[], _Made]]) -> Callable[[], _Made]:
    """Class of a full name, a simple name or an alias; outer blanks do not count, as in Kafka.

    Raises:
        ConnectError: there is none.
    """
    class_name = trim(class_name)
    for name, make in converters.items():
        simple = name.rpartition(".")[2]
        pruned = simple.removesuffix("Converter").removesuffix("Header")
        if class_name in {name, simple, pruned}:
            return make
    raise ConnectError(f"Class {class_name} could not be found.")

"""Kafka's converters: between Connect's data and the bytes of keys, values and headers.

    from controlplane.connect.converters import converter_for

    converter = converter_for("org.apache.kafka.connect.json.JsonConverter")
    converter.configure({"schemas.enable": "false"}, is_key=False)
    converter.to_connect("orders", b'{"id":7}')  # SchemaAndValue({"id": 7})

They write the bytes that Kafka 3.9 writes, and refuse what it refuses.
"""

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
from controlplane.connect.converters.protocols import Converter, HeaderConverter
from controlplane.connect.converters.registry import converter_for, header_converter_for
from controlplane.connect.converters.simple_header_converter import SimpleHeaderConverter
from controlplane.connect.converters.string_converter import StringConverter

__all__ = [
    "BooleanConverter",
    "ByteArrayConverter",
    "Converter",
    "DoubleConverter",
    "FloatConverter",
    "HeaderConverter",
    "IntegerConverter",
    "JsonConverter",
    "LongConverter",
    "ShortConverter",
    "SimpleHeaderConverter",
    "StringConverter",
    "converter_for",
    "header_converter_for",
]

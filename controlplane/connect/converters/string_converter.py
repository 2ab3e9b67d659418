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
_CODECS: Final = """
    ascii big5 big5hkscs cp037 cp1006 cp1026 cp1140 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256
    cp1257 cp1258 cp273 cp424 cp437 cp500 cp737 cp775 cp850 cp852 cp855 cp856 cp857 cp858 cp860
    cp861 cp862 cp863 cp864 cp865 cp866 cp869 cp874 cp875 cp932 cp949 cp950 euc_jp euc_kr gb18030
    gb2312 gbk iso2022_jp iso2022_jp_2 iso2022_kr iso8859-1 iso8859-11 iso8859-13 iso8859-15
    iso8859-16 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9 johab
    koi8-r koi8-u mac-cyrillic mac-greek mac-iceland mac-latin2 mac-roman mac-turkish shift_jis
    shift_jis_2004 tis-620 utf-16 utf-16-be utf-16-le utf-32 utf-32-be utf-32-le utf-8
"""
"""Python's codecs for character sets of Java 17. Java does not know the others, such as `hex`."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BIG_ENDIAN_MARK: Final = b"\xfe\xff"
_BYTE_ORDER_MARKS: Final[Mapping[str, Mapping[bytes, str]]] = {
    "utf-16": {_BIG_ENDIAN_MARK: "utf-16-be", b"\xff\xfe": "utf-16-le"},
    "utf-32": {b"\0\0\xfe\xff": "utf-32-be", b"\xff\xfe\0\0": "utf-32-le"},
}
"""Byte-order marks by character set, each with the codec of the bytes that follow it."""


class StringConverter(PlainConverter):
    """Text in UTF-8, or in the character set `converter.encoding`.

    Other values are written as Java's `toString` does: `1.0E10`, `{a=1}`, `Struct{id=7}`.
    """

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:  # noqa: ARG002
        """Take the setting `converter.encoding`.

        Raises:
            ConnectError: Java or Python has no such character set.
        """
        name = str(setting(config, _ENCODING))
        try:
            encoding = codecs.lookup(name).name
        except (LookupError, ValueError) as error:
            raise ConnectError(f"Unsupported encoding {name}") from error
        if encoding not in _CODECS.split():
            raise ConnectError(f"Unsupported encoding {name}")
        self._encoding = encoding

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
        # Java writes UTF-16 and UTF-32 in big-endian order; Python would use that of the machine.
        if self._encoding == "utf-16":
            return _BIG_ENDIAN_MARK + text.encode("utf-16-be") if text else b""
        if self._encoding == "utf-32":
            return text.encode("utf-32-be")
        return text.encode(self._encoding, "replace")

    def decode(self, value: bytes | None) -> SchemaAndValue:
        """The text of the bytes, with the schema OPTIONAL_STRING. Invalid bytes become U+FFFD."""
        if value is None:
            return SchemaAndValue(None, OPTIONAL_STRING)
        if self._encoding == "utf-8":
            return SchemaAndValue(decode_key(value), OPTIONAL_STRING)
        encoding = self._encoding
        if marks := _BYTE_ORDER_MARKS.get(encoding):
            mark = next(filter(value.startswith, marks), b"")
            encoding, value = marks.get(mark, f"{encoding}-be"), value[len(mark) :]
        return SchemaAndValue(value.decode(encoding, "replace"), OPTIONAL_STRING)

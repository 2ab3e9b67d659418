"""Results of Kafka's JsonConverter (schemas off), release by release.

Each result comes from the published jars of the release on JDK 17. A row has the result of the
oldest release, and the result of each later release that changed it.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

BAD = "DataException"
OVERFLOW = "StackOverflowError"
BIG = "a value too big to be written down"
INF = math.inf

_ASKED = (
    "0.9.0.1 0.10.0.1 0.10.1.1 0.10.2.1 0.11.0.3 1.0.2 1.1.1 2.0.1 2.1.1 2.2.1 2.2.2 2.3.0 2.3.1 "
    "2.4.1 2.5.1 2.6.0 2.6.1 2.8.2 3.0.2 3.1.2 3.2.0 3.2.2 3.2.3 3.4.1 3.5.2 3.6.0 3.6.2 3.7.0 "
    "3.7.2 3.8.1 3.9.1 4.0.0 4.1.0 4.1.1 4.2.0 4.2.1 4.3.0"
)
ASKED = tuple(_ASKED.split())
"""Releases of the table, oldest first."""


class JsonCase(NamedTuple):
    """A value, its result in the oldest release, and each later result by first release."""

    value: bytes
    first: object
    later: Mapping[str, object] = MappingProxyType({})

    def answers(self) -> dict[str, object]:
        """The answer of every release asked."""
        by_release, answer = {}, self.first
        for release in ASKED:
            answer = self.later.get(release, answer)
            by_release[release] = answer
        return by_release


EMPTY = (
    JsonCase(b"", BAD, {"1.0.2": None, "2.2.2": BAD, "2.3.0": None, "2.3.1": BAD, "2.6.1": None}),
    JsonCase(b" ", BAD, {"1.0.2": None, "2.2.2": BAD, "2.3.0": None, "2.3.1": BAD, "2.6.1": None}),
    JsonCase(
        b"\n\t\r ", BAD, {"1.0.2": None, "2.2.2": BAD, "2.3.0": None, "2.3.1": BAD, "2.6.1": None}
    ),
    JsonCase(b"\x0b", BAD),
    JsonCase(b"\xef\xbb\xbf", BAD),
    JsonCase(
        b"\xef\xbb\xbf ",
        BAD,
        {"1.0.2": None, "2.2.2": BAD, "2.3.0": None, "2.3.1": BAD, "2.6.1": None},
    ),
    JsonCase(b"\xef\xbb", BAD),
    JsonCase(b"\xfe\xff", BAD),
    JsonCase(
        " ".encode("utf-16-le"),
        BAD,
        {"1.0.2": None, "2.2.2": BAD, "2.3.0": None, "2.3.1": BAD, "2.6.1": None},
    ),
    JsonCase(
        "\ufeff".encode("utf-32-be"),
        BAD,
        {"1.0.2": None, "2.2.2": BAD, "2.3.0": None, "2.3.1": BAD, "2.6.1": None},
    ),
)
"""Empty values, and white space alone."""

FOLLOWERS = (
    JsonCase(b"{} x", {}),
    JsonCase(b"{}{}", {}),
    JsonCase(b"[1]]", [1]),
    JsonCase(b"[1]\xff", [1]),
    JsonCase(b'"a"b', "a"),
    JsonCase(b"1 x", 1),
    JsonCase(b"1\r", 1),
    JsonCase(b"1x", BAD),
    JsonCase(b"1,", BAD),
    JsonCase(b"1]", BAD),
    JsonCase(b"1\x00", 1),
    JsonCase(b"1.5}", BAD),
    JsonCase(b"true x", True),
    JsonCase(b"true]x", True),
    JsonCase(b"true}", True),
    JsonCase(b"true,", True),
    JsonCase(b"true:", True),
    JsonCase(b"true$", True),
    JsonCase(b"true_", BAD),
    JsonCase(b"true1", BAD),
    JsonCase(b"truex", BAD),
    JsonCase(b"null\x7f", BAD),
    JsonCase(b"null\xc3\xa9", BAD),
    JsonCase(b"false\x01", False),
    JsonCase("null\u00a0".encode("utf-16-le"), None),
    JsonCase("null\u00e9".encode("utf-16-le"), BAD),
    JsonCase("1\u00a0".encode("utf-16-le"), BAD),
)
"""Text after a value on the top level."""

MALFORMED = (
    JsonCase(b"NaN", BAD),
    JsonCase(b"[Infinity]", BAD),
    JsonCase(b"+1", BAD),
    JsonCase(b"[+1]", BAD),
    JsonCase(b".5", BAD),
    JsonCase(b"1.", BAD),
    JsonCase(b"1.e5", BAD),
    JsonCase(b"1e", BAD),
    JsonCase(b"1e+", BAD),
    JsonCase(b"-", BAD),
    JsonCase(b"--1", BAD),
    JsonCase(b"0x10", BAD),
    JsonCase(b"tru", BAD),
    JsonCase(b"True", BAD),
    JsonCase(b"[1,]", BAD),
    JsonCase(b"[,1]", BAD),
    JsonCase(b"[1 2]", BAD),
    JsonCase(b"[1", BAD),
    JsonCase(b"[1}", BAD),
    JsonCase(b"]", BAD),
    JsonCase(b'{"a":1,}', BAD),
    JsonCase(b'{"a" 1}', BAD),
    JsonCase(b'{"a":}', BAD),
    JsonCase(b'{"a"}', BAD),
    JsonCase(b"{a:1}", BAD),
    JsonCase(b"{'a':1}", BAD),
    JsonCase(b"'a'", BAD),
    JsonCase(b"{1:2}", BAD),
    JsonCase(b'{"a":1 "b":2}', BAD),
    JsonCase(b"/**/1", BAD),
    JsonCase(b"# c\n1", BAD),
    JsonCase(b"\x00\x00\xff\xfe1234", BAD),
    JsonCase(b"\x001\x00\x00", BAD),
    JsonCase(b"\x00\x001\x00", BAD),
)
"""Refused by every release."""

INTEGERS = (
    JsonCase(b"-0", 0),
    JsonCase(b"9223372036854775807", 9223372036854775807),
    JsonCase(b"9223372036854775808", -9223372036854775808),
    JsonCase(b"-9223372036854775809", 9223372036854775807),
    JsonCase(b"18446744073709551616", 0),
    JsonCase(b"123456789012345678901234567890", -4362896299872285998),
    JsonCase(b"01", BAD, {"3.6.0": 1}),
    JsonCase(b"-01", BAD, {"3.6.0": -1}),
    JsonCase(b"00", BAD, {"3.6.0": 0}),
    JsonCase(b"[007]", BAD, {"3.6.0": [7]}),
    JsonCase(b"1" * 1000, 8198552921648689607),
    JsonCase(b"1" * 1001, 8198552921648689607, {"3.7.0": BAD}),
    JsonCase(b"-" + b"1" * 1001, -8198552921648689607, {"3.7.0": BAD}),
    JsonCase(b"0" * 2000 + b"7", BAD, {"3.6.0": 7}),
    JsonCase(b"1" * 5000, 8198552921648689607, {"3.7.0": BAD}),
    JsonCase(b'{"a":' + b"1" * 1001 + b',"a":2}', {"a": 2}, {"3.7.0": BAD}),
)
"""Integral tokens: 64 bits, wrapped; leading zeros from KAFKA-15012 on."""

REALS = (
    JsonCase(b"2.0", 2.0),
    JsonCase(b"2e0", 2.0),
    JsonCase(b"1E+2", 100.0),
    JsonCase(b"-0.0", -0.0, {"2.4.1": 0.0}),
    JsonCase(b"-0e5", -0.0, {"2.4.1": 0.0}),
    JsonCase(b"[-0.00, 0.0]", [-0.0, 0.0], {"2.4.1": [0.0, 0.0]}),
    JsonCase(b"-1e-400", -0.0),
    JsonCase(b"1e-400", 0.0),
    JsonCase(b"1e400", INF),
    JsonCase(b"-1e400", -INF),
    JsonCase(b"00.5", BAD, {"3.6.0": 0.5}),
    JsonCase(b"1e01", 10.0),
    JsonCase(b"2.2250738585072012e-308", 5e-324, {"2.4.1": 2.2250738585072014e-308}),
    JsonCase(b"[2.2250738585072012E-308]", [2.2250738585072014e-308]),
    JsonCase(b"2.4703282292062327e-324", 0.0),
    JsonCase(b"2.4703282292062328e-324", 5e-324),
    JsonCase(b"1.7976931348623158e308", 1.7976931348623157e308),
    JsonCase(b"1.7976931348623159e308", INF),
    JsonCase(b"9007199254740993.0", 9007199254740992.0),
    JsonCase(b"0." + b"1" * 999, 0.1111111111111111),
    JsonCase(b"0." + b"1" * 1000, 0.1111111111111111, {"3.7.0": BAD}),
    JsonCase(b"1e" + b"0" * 999, 1.0),
    JsonCase(b"1e" + b"0" * 1000, 1.0, {"3.7.0": BAD}),
)
"""Tokens with a fraction or an exponent, which are never integers."""

EXPONENTS = (
    JsonCase(b"1e2147483647", INF),
    JsonCase(b"1e2147483648", INF, {"4.1.0": BAD}),
    JsonCase(b"-1e2147483648", -INF, {"4.1.0": BAD}),
    JsonCase(b"1e-2147483647", 0.0),
    JsonCase(b"1e-2147483648", 0.0, {"2.4.1": BAD, "3.7.0": 0.0, "4.1.0": BAD}),
    JsonCase(b"-1e-2147483648", -0.0, {"2.4.1": BAD, "3.7.0": -0.0, "4.1.0": BAD}),
    JsonCase(b"1.5e-2147483646", 0.0),
    JsonCase(b"1.5e-2147483647", 0.0, {"2.4.1": BAD, "3.7.0": 0.0, "4.1.0": BAD}),
    JsonCase(b"0e2147483647", 0.0),
    JsonCase(b"0e2147483648", 0.0, {"2.4.1": BAD, "3.7.0": 0.0, "4.1.0": BAD}),
    JsonCase(b"-0e2147483648", -0.0, {"2.4.1": BAD, "3.7.0": -0.0, "4.1.0": BAD}),
    JsonCase(b"-0.0e-2147483647", -0.0, {"2.4.1": BAD, "3.7.0": -0.0, "4.1.0": BAD}),
    JsonCase(b"1e99999999999", INF, {"4.1.0": BAD}),
    JsonCase(b"1e-99999999999", 0.0, {"2.4.1": BAD, "3.7.0": 0.0, "4.1.0": BAD}),
    JsonCase(b"1e00000000000000000005", 100000.0),
    JsonCase(b"1e-00000000000000000005", 1e-05),
    JsonCase(b"0." + b"0" * 600 + b"1e2147483648", INF),
    JsonCase(b"1" * 600 + b"e2147483648", INF, {"4.1.0": BAD}),
)
"""Exponents about the limits of Java's BigDecimal."""

STRINGS = (
    JsonCase(b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\x08\x0c\n\r\t'),
    JsonCase(b'"\\u00e9\\u00E9"', "\xe9\xe9"),
    JsonCase(b'"\\ud83d\\ude00"', "\U0001f600"),
    JsonCase(b'"\\ud83d"', "\ud83d"),
    JsonCase(b'"\\ude00\\ud83d"', "\ude00\ud83d"),
    JsonCase(b'"\\u0000"', "\x00"),
    JsonCase(b'"\\x"', BAD),
    JsonCase(b'"\\u12"', BAD),
    JsonCase(b'"\\u12g4"', BAD),
    JsonCase(b'"\\u00\xc3\xa9"', BAD),
    JsonCase(b'"\x1f"', BAD),
    JsonCase(b'"\n"', BAD),
    JsonCase(b'"\x00"', BAD),
    JsonCase(b'"\x7f"', "\x7f"),
    JsonCase(b'"\xe2\x80\xa8"', "\u2028"),
    JsonCase(b'"\xf0\x9f\x98\x80"', "\U0001f600"),
    JsonCase(b'"a', BAD),
    JsonCase(b'"a\\"', BAD),
)
"""Strings with escapes, bare characters and control characters."""

LENIENT = (
    JsonCase(b'"\xc0\x80"', "\x00"),
    JsonCase(b'"\xc1\xbf"', "\x7f"),
    JsonCase(b'"\xe0\x80\x80"', "\x00"),
    JsonCase(b'"\xf0\x80\x80\x80"', "\uffc0\udc00"),
    JsonCase(b'"\xf0\x8f\xbf\xbf"', "\uffff\udfff"),
    JsonCase(b'"\xf4\x90\x80\x80"', "\udc00\udc00"),
    JsonCase(b'"\xf7\xbf\xbf\xbf"', "\udfbf\udfff"),
    JsonCase(b'"\xed\xa0\x80"', "\ud800", {"4.2.1": BAD}),
    JsonCase(b'"\xed\xa0\xbd\xed\xb8\x80"', "\U0001f600", {"4.2.1": BAD}),
    JsonCase(b'"\xed\xa0\xbd\\ude00"', "\U0001f600", {"4.2.1": BAD}),
    JsonCase(b'"\x80"', BAD),
    JsonCase(b'"\xf8\x88\x80\x80\x80"', BAD),
    JsonCase(b'"\xfe"', BAD),
    JsonCase(b'"\xff"', BAD),
    JsonCase(b'"\xc3"', BAD),
    JsonCase(b'"\xe2\x82"', BAD),
    JsonCase(b'"\xe2\x82', BAD),
    JsonCase(b'{"\xc0\x80":1}', {"\x00": 1}),
    JsonCase(b'{"\xf0\x80\x80\x80":1}', {"\ud7c0\udc00": 1}),
    JsonCase(b'{"\xf4\x90\x80\x80":1}', {"\udc00\udc00": 1}),
    JsonCase(b'{"\xed\xa0\x80":1}', {"\ud800": 1}, {"4.2.1": BAD}),
    JsonCase(b'{"\x80":1}', BAD),
    JsonCase(b'{"\xc3":1}', BAD),
)
"""Bytes that are invalid UTF-8, with Jackson's results."""

NAMES = (
    JsonCase(b'{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
    JsonCase(b'{"a":1,"\\u0061":2}', {"a": 2}),
    JsonCase(b'{"":1}', {"": 1}),
    JsonCase(b'{"\\ud83d\\ude00":1}', {"\U0001f600": 1}),
    JsonCase(b'{"\\ud83d":1}', {"\ud83d": 1}, {"4.2.1": BAD}),
    JsonCase(b'{"\\ude00\\ud83d":1}', {"\ude00\ud83d": 1}, {"4.2.1": BAD}),
    JsonCase(b'{"\\\\ud83d":1}', {"\\ud83d": 1}),
    JsonCase(b'{"\x1f":1}', BAD),
    JsonCase(b'{"\x7f":1}', {"\x7f": 1}),
    JsonCase(b'{"' + b"a" * 50_000 + b'":1}', BIG),
    JsonCase(b'{"' + b"a" * 50_001 + b'":1}', BIG, {"3.7.0": BAD}),
    JsonCase(b'{"' + b"\xc3\xa9" * 25_000 + b'":1}', BIG),
    JsonCase(b'{"' + b"\xc3\xa9" * 25_001 + b'":1}', BIG, {"3.7.0": BAD}),
    JsonCase(b'{"' + b"\\u00e9" * 25_000 + b'":1}', BIG),
    JsonCase(b'{"' + b"\\u00e9" * 25_001 + b'":1}', BIG, {"3.7.0": BAD}),
    JsonCase(b'{"' + b"\\ud83d\\ude00" * 8_334 + b'":1}', BIG, {"3.7.0": BAD, "4.2.1": BIG}),
    JsonCase(b'{"' + b"\\ud83d\\ude00" * 12_501 + b'":1}', BIG, {"3.7.0": BAD}),
    JsonCase(('{"' + "é" * 50_000 + '":1}').encode("utf-16-be"), BIG),
    JsonCase(('{"' + "😀" * 25_001 + '":1}').encode("utf-16-be"), BIG, {"3.7.0": BAD}),
)
"""Field names of odd encodings and lengths."""

ENCODINGS = (
    JsonCase(b'\xef\xbb\xbf{"a":1}', {"a": 1}),
    JsonCase(b"\xef\xbb\xbf\xef\xbb\xbf1", BAD),
    JsonCase("[1,'x']".replace("'", '"').encode("utf-16"), [1, "x"]),
    JsonCase('{"é😀":[]}'.encode("utf-16-be"), {"\xe9\U0001f600": []}),
    JsonCase('{"é😀":[]}'.encode("utf-16-le"), {"\xe9\U0001f600": []}),
    JsonCase('{"é😀":[]}'.encode("utf-32-be"), {"\xe9\U0001f600": []}),
    JsonCase('{"é😀":[]}'.encode("utf-32-le"), {"\xe9\U0001f600": []}),
    JsonCase('\ufeff"x"'.encode("utf-16-be"), "x"),
    JsonCase('\ufeff"x"'.encode("utf-16-le"), "x"),
    JsonCase('\ufeff"x"'.encode("utf-32-be"), "x"),
    JsonCase('\ufeff"x"'.encode("utf-32-le"), "x"),
    JsonCase(b'\x00"\xd8\x00\x00a\x00"', "\ufffd"),
    JsonCase(b'\x00"\xdc\x00\x00"', "\ufffd"),
    JsonCase(b'\x00"\xff\xfe\x00"', "\ufffe"),
    JsonCase(b'\x00"\x00a\x00"\x00', "a"),
    JsonCase(b'\x00\x00\x00"\x00\x11\x00\x00\x00\x00\x00"', BAD),
    JsonCase(b'\x00\x00\x00"\x00\x00\xd8\x00\x00\x00\x00"', "\ud800"),
    JsonCase(b"\x00\x00\x00[\x00\x00\x00]\x00\x11\x00\x00", BAD),
    JsonCase("1".encode("utf-16-be"), 1),
    JsonCase("1".encode("utf-16-le"), 1),
    JsonCase("1".encode("utf-32-be"), 1),
    JsonCase(b"1\x00\x00", BAD),
)
"""Encodings guessed from the first bytes."""

NESTING = (
    JsonCase(b"[" * 1000 + b"]" * 1000, BIG),
    JsonCase(b"[" * 1001 + b"]" * 1001, BIG, {"3.7.0": BAD}),
    JsonCase(b'{"a":' * 1001 + b"1" + b"}" * 1001, BIG, {"3.7.0": BAD}),
    JsonCase(b"[" * 20_000 + b"]" * 20_000, OVERFLOW, {"3.7.0": BAD}),
    JsonCase(b"[" * 20_000, OVERFLOW, {"3.2.3": BAD}),
    JsonCase(b"[" * 1500, BAD),
    JsonCase(
        b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b',"a":1}',
        OVERFLOW,
        {"3.2.3": {"a": 1}, "3.7.0": BAD},
    ),
)
"""Documents whose depth passes a limit of Jackson or Java."""

ALL = (
    *EMPTY,
    *FOLLOWERS,
    *MALFORMED,
    *INTEGERS,
    *REALS,
    *EXPONENTS,
    *STRINGS,
    *LENIENT,
    *NAMES,
    *ENCODINGS,
    *NESTING,
)

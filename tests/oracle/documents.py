"""Random JSON documents as bytes: valid ones, and ones that Jackson reads in its own way."""

from collections.abc import Callable, Sequence

from tests.oracle.draw import Draw

JsonField = tuple[bytes, bytes]
"""A field of an object: name and value as they stand in the document, quotes included."""

LEVELS_ALLOWED = 1000
"""Deepest nesting that Jackson 2.15 accepts."""

LEVELS_OVERFLOWING = 30_000
"""Nesting that overflows a stack of 1 MiB in every release.

For depths between `LEVELS_ALLOWED` and this, the result depends on the JVM.
"""

LONG = (b'"k":0,' + b'"' + b"n" * 50_000 + b'":0', b'"' + b"n" * 50_001 + b'":0')

INTEGERS = (
    *(b"0 1 2 3 -1 -0 10 2147483647 2147483648 -2147483649 4294967295 4294967296".split()),
    *(b"4294967297 4294967298 9223372036854775807 9223372036854775808".split()),
    *(b"-9223372036854775809 18446744073709551616 18446744073709551617".split()),
    b"1" + b"0" * 99,
    b"-" + b"7" * 1000,
    b"7" * 1001,
)
LEADING_ZEROS = (b"00", b"01", b"-01", b"002", b"0000000000", b"00.5", b"-00", b"01e1")
REALS = (
    *(b"0.0 -0.0 1.0 2.0 2e0 1.5 -2.50 0e5 -0e5 1E2 1e-3 1.0E10 1e400 -1e400 1e-400".split()),
    *(b"1e2147483647 1e-2147483647 1e2147483648 1e-2147483649 1e99999999999".split()),
    *(b"-1e99999999999 1e-99999999999 0e99999999999 -0e-99999999999".split()),
    *(b"0.1e2147483648 123456789012345678.9 0.1 0.30000000000000004 5e-324".split()),
    *(b"1.7976931348623157e308 1.7976931348623159e308 2.2250738585072012e-308".split()),
    b"1" + b"0" * 600 + b"e2147483647",
    b"0." + b"1" * 600 + b"e-2147483647",
    b"1." + b"3" * 999,
    b"1." + b"3" * 1001,  # 1,002 digits: 1,001 pass if they are a whole document in UTF-16
)
NO_NUMBERS = tuple(b"NaN Infinity -Infinity +1 .5 1. 1e 1e+ 0x1 1_0 - -a 1a 1.5f --1".split())
LITERALS = (b"true", b"false", b"null", b"[]", b"{}", b"[1]", b'{"k":1}', b"[null,true]")
NO_LITERALS = tuple(b"tru nulll True nul true1 false_ null] undefined 'k' //".split())
TEXTS = (
    *(b'"" "k" "STARTED" "PAUSED" "STOPPED" "RUNNING" "1" "true" " "'.split(b" ")[:-1]),
    b'" "',
    '"é"'.encode(),
    '"😀"'.encode(),
    rb'"\u00e9\ud83d\ude00"',
    rb'"\b\t\n\f\r\"\\\/"',
    rb'"\u0000\u001F"',
    rb'"\ud83d"',
    rb'"\ude00\ud83d"',
    b'"\xc0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xe0\x80\xaf"',
    b'"\xf0\x80\x80\xaf"',
    b'"\xed\xa0\x80"',
    b'"\xed\xa0\xbd\xed\xb8\x80"',
    b'"\x7f\xe2\x80\xa8"',
)
NO_TEXTS = (
    *(b'"\xff" "k\x80" "\xc3" "\xe2\x82" "\xf8\x88\x80\x80\x80" "\xc3k" k" "k'.split(b" ")),
    *(rb'"\x" "\u12" "\u12G4" "\'" \"k\"'.split(b" ")),
    b'"\n"',
    b'"\x00"',
    b"'k'",
)
ODD = (INTEGERS, INTEGERS, REALS, LITERALS, LITERALS, TEXTS)
BAD = (LEADING_ZEROS, NO_NUMBERS, NO_LITERALS, NO_TEXTS)

SPACES = (b" ", b"\n", b"\t", b"\r\n", b"  ")
GARBAGE = (b" x", b"x", b"{}", b",", b"]", b"}", b"1", b" 1", b"\x00", b"\xff", b"\xc3\xa9", b"_")
INSIDE = tuple(garbage for garbage in GARBAGE if garbage != b"\xff")
"""Garbage for the inside of a document, without a stray FF.

Jackson takes a name with a stray FF for a similar name that it has read before in the process.
"""

EMPTY = (b"", b" ", b"\n\t\r ", b"\xef\xbb\xbf", b"\xef\xbb\xbf ", b"\xc2\xa0", b"\x0b", b"\x00")
CODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")


def scalar(draw: Draw) -> bytes:
    """A short value of any type, mostly valid."""
    if draw.mishap(0.1):
        return draw.one_of(draw.one_of(BAD))
    return draw.one_of(draw.one_of(ODD))


def obj(draw: Draw, fields: Sequence[JsonField], *, kept: bool = False) -> bytes:
    """An object with these fields; random choices add spaces, repeated fields and foreign fields.

    `kept`: a store keeps the value and answers return it, so it is not nested deeply.
    """
    fields = list(fields)
    if draw.mishap(0.05):
        fields.insert(draw.below(len(fields) + 1), (b'"extra"', scalar(draw)))
    if fields and draw.mishap(0.03):
        name, _ = draw.one_of(fields)
        fields.insert(draw.below(len(fields) + 1), (name, scalar(draw)))
    if not kept and draw.mishap(0.002):
        fields.append((b'"deep"', nested(draw)))
    if not kept and draw.mishap(0.001):
        return b"{" + draw.one_of(LONG) + b"," + _joined(fields, b":") + b"}"
    space = draw.one_of(SPACES) if draw.chance(0.1) else b""
    return b"{" + space + _joined(fields, b":" + space, b"," + space) + space + b"}"


def _joined(fields: Sequence[JsonField], colon: bytes, comma: bytes = b",") -> bytes:
    return comma.join(name + colon + value for name, value in fields)


def nested(draw: Draw) -> bytes:
    """Nested lists: the depth is allowed within an object, one too many, or far too many."""
    levels = draw.one_of((LEVELS_ALLOWED - 1, LEVELS_ALLOWED, LEVELS_OVERFLOWING))
    return b"[" * levels + b"]" * (levels if draw.chance(0.8) else 0)


ByteChange = Callable[[Draw, bytes], bytes]


def _recoded(draw: Draw, document: bytes) -> bytes:
    coding = draw.one_of(CODINGS)
    return document.decode("utf-8", "replace").encode(coding)


def _broken_utf32(draw: Draw, document: bytes) -> bytes:
    """UTF-32 with a character beyond U+10FFFF, or in a byte order that no platform has.

    The document never ends in half a character. Jackson 2.5 and 2.6 read far enough ahead to see
    it; later releases do not.
    """
    text = document.decode("utf-8", "replace").encode("utf-32-le")
    at = draw.below(len(text) // 4 + 1) * 4
    whole = text[:at] + b"\x00\x00\x11\x00" + text[at:]
    return draw.one_of((whole, b"\x00\x00\xff\xfe" + text, b"\x00\x00{\x00"))


def _cut(draw: Draw, document: bytes) -> bytes:
    return document[: draw.below(len(document) + 1)]


def _garbled(draw: Draw, document: bytes) -> bytes:
    at = draw.below(len(document) + 1)
    garbage = draw.one_of((*INSIDE, b'"', b"{", b"[", b":", b"\\"))
    return document[:at] + garbage + document[at + draw.below(2) :]


CHANGES: tuple[ByteChange, ...] = (
    lambda draw, document: document + draw.one_of(GARBAGE),
    lambda draw, document: document + draw.one_of(GARBAGE),
    lambda draw, document: draw.one_of(SPACES) + document,
    lambda draw, document: document.replace(b"}", draw.one_of((b",}", b",,}")), 1),
    lambda draw, document: draw.one_of(GARBAGE) + document,
    _recoded,
    _recoded,
    _broken_utf32,
    _cut,
    _garbled,
    _garbled,
)


def sometimes_damaged(draw: Draw, document: bytes) -> bytes:
    """The document unchanged, or rarely with changed bytes."""
    if len(document) >= LEVELS_OVERFLOWING:
        return document  # a changed copy could have a depth that only some JVMs allow
    return draw.one_of(CHANGES)(draw, document) if draw.mishap(0.04) else document


def anything(draw: Draw) -> bytes:
    """A document that does not fit the expected record."""
    if draw.chance(0.3):
        return draw.one_of(EMPTY)
    if draw.chance(0.02):
        return nested(draw)
    return sometimes_damaged(draw, scalar(draw))

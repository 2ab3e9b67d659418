"""Java's own behaviours; the tables hold results of a JDK 17 (doubles: JDK 19)."""

import math
from base64 import b64encode
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.java import java_library

any_text = st.text(st.characters())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("connector", -579210163),
        ("Aa", 2112),
        ("BB", 2112),
        ("é", 233),
        ("\U0001f600", 1772899),
        ("\ud83d", 55357),
        ("polygenelubricants", -(2**31)),
        ("x" * 100, 1680682496),
    ],
)
def test_hash_codes_are_javas(text: str, code: int) -> None:
    """Hash codes are computed over UTF-16 units, in 32 bits."""
    assert java_library.hash_code(text) == code


_NINE = ["k18", "k29", "k90", "k140", "k151", "k162", "k173", "k184", "k195"]
"""Nine keys that a table of sixteen buckets puts into one bucket."""

ORDERS = (
    ("db table schema", "schema db table"),
    ("BB Aa", "BB Aa"),
    ("Aa BB", "Aa BB"),
    ("é \U0001f600 z", "\U0001f600 é z"),
    (
        "name class tasks.max topics file on.error a b c",
        "a b file c tasks.max topics name on.error class",
    ),
    (
        "name class tasks.max topics file on.error a b c d e f",
        "a b file c d e tasks.max topics f name on.error class",
    ),
    (
        "name class tasks.max topics file on.error a b c d e f g",
        "a b c d e tasks.max topics f g on.error file name class",
    ),
    (" ".join([*_NINE[:8], "zz", "yy"]), "zz yy " + " ".join(_NINE[:8])),
    (" ".join(_NINE), "k90 k18 k29 k140 k151 k162 k173 k184 k195"),
)


@pytest.mark.parametrize(("keys", "order"), ORDERS, ids=range(len(ORDERS)))
def test_maps_iterate_as_a_hash_map_does(keys: str, order: str) -> None:
    """A table of sixteen buckets doubles at the thirteenth key, or at nine keys in one bucket."""
    assert java_library.hash_map_order(keys.split()) == order.split()


PATCHES: tuple[tuple[str, Mapping[str, str | None], str], ...] = (
    ("name class topics", {}, "name class topics"),
    (
        "name class topics rows tasks.max alter",
        {"rows": "11", "alter": None, "more": "1"},
        "topics tasks.max more name rows class",
    ),
    ("a b c", dict.fromkeys("defghij", "1"), "a b c d e f g h i j"),
    ("", {"a": "1", "b": "2", "name": "3"}, "a b name"),
    (
        "name class tasks.max topics file on.error a b c d e f",
        {"g": None, "a": None},
        "b c d e tasks.max topics f on.error file name class",
    ),
)


@pytest.mark.parametrize(("keys", "patch", "order"), PATCHES, ids=range(len(PATCHES)))
def test_a_patched_copy_iterates_as_a_hash_map_does(
    keys: str, patch: Mapping[str, str | None], order: str
) -> None:
    """The table of a copy is sized for its entries, so a copy may have another order."""
    patched = java_library.patched_hash_map(dict.fromkeys(keys.split(), "0"), patch)
    assert list(patched) == order.split()
    assert patched == {key: patch.get(key) or "0" for key in order.split()}


@given(keys=st.lists(st.text("abAB", max_size=3), max_size=80))
def test_a_map_holds_each_key_once(keys: list[str]) -> None:
    """No key is lost or doubled in any order, and a second put changes nothing."""
    order = java_library.hash_map_order(keys)
    assert sorted(order) == sorted(set(keys))
    assert java_library.hash_map_order(keys + keys[::-1]) == order


PAGES = {
    1: "0",
    2: "0 1",
    3: "0 2 1",
    4: "2 0 3 1",
    5: "2 4 0 3 1",
    6: "2 5 4 0 3 1",
    7: "5 4 6 2 0 3 1",
    9: "5 4 6 8 7 2 0 3 1",
    13: "5 10 8 2 11 0 4 6 9 7 3 1 12",
    20: "5 13 10 8 17 2 14 16 11 0 19 15 4 18 6 9 7 3 1 12",
}


@pytest.mark.parametrize(("size", "order"), PAGES.items())
def test_a_map_of_byte_buffers_iterates_as_javas_does(size: int, order: str) -> None:
    """Keys of offsets are in the order of a worker's `new HashMap<>(size)` of byte buffers."""
    keys = [f'["pages",{{"page":{page}}}]'.encode() for page in range(size)]
    codes = {page: java_library.byte_buffer_hash(key) for page, key in enumerate(keys)}
    assert java_library.hash_order(codes, java_library.table_size(size)) == [
        int(page) for page in order.split()
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 1),
        (b'["orders",{"table":"a"}]', -1727241273),
        (b"\xc3\xbc\x7f\x80\x00\xff", 855181160),
    ],
)
def test_byte_buffers_have_javas_hash_codes(content: bytes, code: int) -> None:
    """Bytes count as signed numbers, the last one first."""
    assert java_library.byte_buffer_hash(content) == code


@given(entries=st.integers(1, 10_000))
def test_a_table_is_made_for_its_entries(entries: int) -> None:
    """The size is a power of two, less than twice the number of entries."""
    size = java_library.table_size(entries)
    assert entries <= size < 2 * entries
    assert size.bit_count() == 1


def test_trimming_keeps_whitespace_that_only_unicode_defines() -> None:
    """Control characters are trimmed, a no-break space stays."""
    assert java_library.trim(" \x00\x1f\ta b\u00a0 \n") == "a b\u00a0"
    assert java_library.trim("\u2003\x7f") == "\u2003\x7f"
    assert java_library.trim(" \t") == ""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("-", []),
        ("---", []),
        ("a", ["a"]),
        ("a-b", ["a", "b"]),
        ("-a", ["", "a"]),
        ("task-a-b-2---", ["task", "a", "b", "2"]),
        ("task--0", ["task", "", "0"]),
    ],
)
def test_splitting_drops_empty_parts_at_the_end(text: str, parts: list[str]) -> None:
    """Empty parts at the end are dropped, others stay; the empty text has one part."""
    assert java_library.split_dashes(text) == parts


INTS = {
    "0": 0,
    "-0": 0,
    "+3": 3,
    "007": 7,
    "٣": 3,
    "-٣4": -34,
    "\uff15": 5,
    "2147483647": 2147483647,
    "-2147483648": -2147483648,
    "0" * 5000 + "1": 1,
    "2147483648": None,
    "-2147483649": None,
    "99999999999": None,
    "9" * 5000: None,
    "": None,
    "+": None,
    "-": None,
    "+-1": None,
    " 1": None,
    "1_0": None,
    "1.0": None,
    "²": None,
    "Ⅷ": None,
    "\U0001d7d8": None,
}


@pytest.mark.parametrize(("text", "number"), INTS.items(), ids=[ascii(t)[:16] for t in INTS])
def test_integers_are_parsed_as_java_does(text: str, number: int | None) -> None:
    """Signs, zeros and digits of other scripts are accepted; a digit of two units is not."""
    assert java_library.parse_int(text) == number


LONGS = {
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "2147483648": 2**31,
    "+0٣": 3,
    "9223372036854775808": None,
    "-9223372036854775809": None,
    "9" * 20: None,
    "": None,
    " 5": None,
    "5.0": None,
}


@pytest.mark.parametrize(("text", "number"), LONGS.items(), ids=[ascii(t)[:24] for t in LONGS])
def test_longs_are_parsed_as_java_does(text: str, number: int | None) -> None:
    """The rules of integers apply, in 64 bits."""
    assert java_library.parse_long(text) == number


@given(number=st.integers())
def test_narrowing_keeps_the_low_bits(number: int) -> None:
    """The result is in the range of the type, and equals the number where it fits."""
    for narrow, bits in ((java_library.narrow_int, 32), (java_library.wrap_long, 64)):
        left = narrow(number)
        assert -(2 ** (bits - 1)) <= left < 2 ** (bits - 1)
        assert (left - number) % 2**bits == 0


DOUBLES = {
    0.0: "0.0",
    1.0: "1.0",
    -1.5: "-1.5",
    100.0: "100.0",
    0.001: "0.001",
    0.00123: "0.00123",
    9999999.0: "9999999.0",
    1234567.875: "1234567.875",
    1e7: "1.0E7",
    12345678.5: "1.23456785E7",
    1e-4: "1.0E-4",
    9.999e-4: "9.999E-4",
    1e10: "1.0E10",
    -1e-5: "-1.0E-5",
    1e23: "1.0E23",
    2e-323: "2.0E-323",
    1e-323: "9.9E-324",
    5e-324: "4.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}


@pytest.mark.parametrize(("number", "text"), DOUBLES.items(), ids=DOUBLES.values())
def test_doubles_are_written_as_java_does(number: float, text: str) -> None:
    """Doubles have an exponent from 10**7 on and below 10**-3, and a digit after the point."""
    assert java_library.double_text(number) == text


def test_minus_zero_and_nan_have_their_own_texts() -> None:
    """Minus zero keeps its sign, although it equals zero."""
    assert java_library.double_text(-0.0) == "-0.0"
    assert java_library.double_text(math.nan) == "NaN"


@given(number=st.floats(allow_nan=False))
def test_doubles_are_read_again(number: float) -> None:
    """The text parses to the same number."""
    assert float(java_library.double_text(number).replace("Infinity", "inf")) == number


@pytest.mark.parametrize("text", ["AQID", "AQI=", "AQI", "AQ==", "AQ", "", "+/+/", "AR=="])
def test_base64_may_lack_its_padding(text: str) -> None:
    """Padding may be missing as a whole; unused bits are ignored."""
    decoded = java_library.decode_base64(text)
    assert decoded is not None
    bare = text.rstrip("=")
    assert b64encode(decoded).decode().rstrip("=")[:-1] == bare[:-1]


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "A=",
        "=",
        "==",
        "AQ=",
        "AQ===",
        "AQI==",
        "AQID=",
        "AQIDA",
        "AQ==AQ==",
        "-_-_",
        "AQIé",
        "AQI\u0141",
        "AQI\U0001f600",
        "AQ ==",
        "AQID\n",
    ],
)
def test_base64_is_otherwise_strict(text: str) -> None:
    """Wrong padding, white space, other alphabets and text after the end are refused."""
    assert java_library.decode_base64(text) is None


@given(content=st.binary(max_size=40))
def test_base64_is_read_again(content: bytes) -> None:
    """Base64 is decoded with and without its padding."""
    text = b64encode(content).decode()
    assert (
        java_library.decode_base64(text) == java_library.decode_base64(text.rstrip("=")) == content
    )


@pytest.mark.parametrize(
    ("units", "expected"),
    [("azAZ09_$é٣\u0300\u200b\x7f\x00", True), (" -.:;<=>@[^`{|}~\u2028\u20ac"[:-1], False)],
)
def test_identifier_parts_match_java(units: str, expected: bool) -> None:
    """Letters, digits, currency signs, connecting punctuation, marks and ignorables are parts."""
    assert {java_library.is_identifier_part(unit) for unit in units} == {expected}


def test_surrogates_and_private_characters_are_no_identifier_parts() -> None:
    """`is_identifier_part` is false for each of them."""
    assert not any(map(java_library.is_identifier_part, "\ud83d\udc00\ue000\ufffe"))


@given(text=any_text)
def test_units_are_those_of_utf16(text: str) -> None:
    """A character up to U+FFFF is one unit, others are two; lone surrogates stay."""
    units = java_library.utf16_units(text)
    assert len(units) == len(text) + sum(char > "\uffff" for char in text)
    assert all(0 <= unit <= 0xFFFF for unit in units)


@pytest.mark.parametrize(
    ("text", "begin", "rest"),
    [
        ("abc", 1, "bc"),
        ("abc", 3, ""),
        ("abc", 4, None),
        ("\U0001f600a", 2, "a"),
        ("\U0001f600a", 1, "\ude00a"),
        ("\U0001f600a", 3, ""),
        ("\U0001f600a", 4, None),
        ("\ud83d\u00e9", 1, "\u00e9"),
    ],
)
def test_substrings_begin_at_units(text: str, begin: int, rest: str | None) -> None:
    """A pair beyond U+FFFF is two units, and may be cut in half."""
    assert java_library.substring(text, begin) == rest


def test_strings_are_ordered_by_their_units() -> None:
    """A pair begins with U+D83D, so it comes before U+FF5E, though its code point is larger."""
    assert sorted(["\uff5e", "\U0001f600", "a"], key=java_library.string_order) == [
        "a",
        "\U0001f600",
        "\uff5e",
    ]

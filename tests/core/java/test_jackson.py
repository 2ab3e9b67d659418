"""The parser behind `javajson`, piece by piece: encodings, strings, numbers, depth.

`javajson_cases` holds Kafka's answers to whole values.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.java.jackson import is_deeper, parse
from controlplane.core.java.jackson_numbers import NumberRules, floating, integer, number_rules
from controlplane.core.java.jackson_text import DocumentText, StringDecoder, joined, read_text
from controlplane.core.java.java_library import wrap_long
from controlplane.core.java.json_errors import StackOverflow, Undecodable
from controlplane.core.releases.profiles import PROFILES, Profile

NEWEST = Profile.of("4.3.0")
profiles = st.sampled_from(PROFILES)

TEXTS = (
    (b"", DocumentText("", in_bytes=True)),
    (b"\xc3\xa9", DocumentText("\xc3\xa9", in_bytes=True)),
    (b"\xef\xbb\xbf1", DocumentText("1", in_bytes=True)),
    (b"\x001\x002", DocumentText("12", in_bytes=False)),
    (b"1\x002\x00", DocumentText("12", in_bytes=False)),
    (b"\xfe\xff\x001", DocumentText("1", in_bytes=False)),
    (b"\xff\xfe1\x00", DocumentText("1", in_bytes=False)),
    (b"\x00\x00\x001", DocumentText("1", in_bytes=False)),
    (b"1\x00\x00\x00", DocumentText("1", in_bytes=False)),
    (b"\xff\xfe\x00\x001\x00\x00\x00", DocumentText("1", in_bytes=False)),
    (b"\x00\x01\xf6\x00", DocumentText("\x01\uf600", in_bytes=False)),
    (b"\x00\x00\x00 \x00\x01\xf6\x00", DocumentText(" \ud83d\ude00", in_bytes=False)),
    (b"\x001\x00", DocumentText("1\ufffd", in_bytes=False)),
    (b"\x00\x00\x0012", DocumentText("1", in_bytes=False, broken=True)),
    (b"\x00\x00\x001\xff\xff\xff\xff", DocumentText("", in_bytes=False, broken=True)),
    (
        b"\x00\x00\x001" * 4001 + b"\xff\xff\xff\xff",
        DocumentText("1" * 4000, in_bytes=False, broken=True),
    ),
)


@pytest.mark.parametrize(
    ("value", "text"), TEXTS, ids=[f"{n}:{row[0]!r:.24}" for n, row in enumerate(TEXTS)]
)
def test_the_encoding_is_guessed_from_the_first_bytes(value: bytes, text: DocumentText) -> None:
    """UTF-8 stays bytes; UTF-16 and UTF-32 become UTF-16 units.

    Jackson decodes 4,000 characters at a time, and loses all of them if one is invalid.
    """
    assert read_text(value) == text


@pytest.mark.parametrize("value", [b"\x00\x00\xff\xfe1", b"\xfe\xff\x00\x001", b"\x001\x00\x00"])
def test_mixed_byte_orders_are_refused(value: bytes) -> None:
    """UTF-32 in the byte orders 2143 and 3412 is refused."""
    with pytest.raises(Undecodable, match="byte order"):
        read_text(value)


STRING = StringDecoder(in_bytes=True, is_name=False, encoded_surrogates=True)
NAME = StringDecoder(in_bytes=True, is_name=True, encoded_surrogates=True)
STRICT_NAME = StringDecoder(in_bytes=True, is_name=True, encoded_surrogates=False)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters='"\\')))
def test_valid_utf8_is_decoded(text: str) -> None:
    """Strings and names decode as UTF-8."""
    body = text.encode().decode("latin-1")
    assert STRING.decode(body) == NAME.decode(body) == STRICT_NAME.decode(body) == text


@given(units=st.lists(st.integers(0, 0xFFFF)))
def test_any_utf16_units_can_be_escaped(units: list[int]) -> None:
    """Half of a surrogate pair can be escaped, too; a whole pair becomes one character."""
    body = "".join(f"\\u{unit:04x}" for unit in units)
    assert STRING.decode(body) == joined("".join(map(chr, units)))


@pytest.mark.parametrize("body", [r"\ud83d", r"\ude00", r"\ud83dx\ude00", r"\ud83d\ud83d\ude00"])
def test_half_a_pair_in_a_name_is_refused_by_the_newest(body: str) -> None:
    """Jackson 2.21 checks the escapes of names, and of names only."""
    assert NAME.decode(body) == STRING.decode(body)
    with pytest.raises(Undecodable, match="half of a surrogate pair"):
        STRICT_NAME.decode(body)


SIZES = (
    ("abc", 3, 3, 3),
    ("\xc3\xa9", 2, 2, 2),
    (r"\n", 1, 1, 1),
    (r"\u0041", 1, 1, 1),
    (r"\u00e9", 2, 2, 1),
    (r"\u20ac", 3, 3, 1),
    (r"\ud83d\ude00", 6, 4, 2),
)


@pytest.mark.parametrize(("body", "old", "new", "units"), SIZES)
def test_the_size_of_a_name_is_that_of_its_characters(
    body: str, old: int, new: int, units: int
) -> None:
    """Names in UTF-8 count bytes (before 2.21, six per escaped pair), other names UTF-16 units."""
    in_units = StringDecoder(in_bytes=False, is_name=True, encoded_surrogates=True)
    assert (NAME.size(body), STRICT_NAME.size(body), in_units.size(body)) == (old, new, units)


@given(number=st.integers(-(10**60), 10**60))
def test_integers_wrap(number: int) -> None:
    """An integer keeps its low 64 bits."""
    assert integer(str(number)) == wrap_long(number)


def test_integers_of_any_length_wrap() -> None:
    """Integers longer than Python converts at once wrap as well."""
    assert integer("-" + "1" * 9_999) == wrap_long(-(10**9_999 - 1) // 9)
    with pytest.raises(Undecodable, match="1000 digits"):
        parse(b"1" * 1_001, NEWEST)


@given(number=st.floats(allow_nan=False, allow_infinity=False), profile=profiles)
def test_reals_are_read_exactly(number: float, profile: Profile) -> None:
    """Every release rounds correctly; only zero may lose its sign."""
    assert floating(repr(number), number_rules(profile)) == number


def test_exponents_end_where_big_decimal_ends() -> None:
    """`1e-2147483647` is read; `1.5` with that exponent has too large a scale for BigDecimal."""
    rules = NumberRules(limited=True, as_double=False, huge_exponent="undecodable")
    assert floating("1e-2147483647", rules) == 0
    with pytest.raises(Undecodable, match="exponent"):
        floating("1.5e-2147483647", rules)


def test_depth_is_counted_in_containers() -> None:
    """Lists and maps add to the depth; scalars do not."""
    assert not is_deeper(1, 0)
    assert is_deeper([], 0)
    assert is_deeper([1, {"a": []}], 2)
    assert not is_deeper([1, {"a": [2]}], 3)


@pytest.mark.parametrize(
    ("release", "value", "error"),
    [
        ("2.8", b"[" * 20_000, StackOverflow),
        ("3.6", b"[" * 20_000, Undecodable),
        ("3.6", b"[" * 20_000 + b"]" * 20_000, StackOverflow),
        ("3.7", b"[" * 20_000 + b"]" * 20_000, Undecodable),
    ],
)
def test_deep_json_overflows_recursive_parsers(
    release: str, value: bytes, error: type[ValueError]
) -> None:
    """Jackson's parser is recursive up to 2.12, the conversion of whole values up to 2.14."""
    with pytest.raises(error):
        parse(value, Profile.of(release))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[1 2]", "a comma or the end of the container is missing at position 3"),
        (b'{"a":}', "a value is missing at position 5"),
        (b'{"a"', "a name is missing at position 1"),
        (b"1x", "the end of the value is missing at position 1"),
        (b'"\x80"', "byte 0x80 is not UTF-8"),
        (b'"\xed\xa0\x80"', "surrogate U+D800 encoded as UTF-8"),
        (b"[" * 1001, "more than 1000 levels"),
    ],
)
def test_refusals_say_why(value: bytes, reason: str) -> None:
    """The error names what is missing, and where."""
    with pytest.raises(Undecodable) as refusal:
        parse(value, NEWEST)
    assert reason in str(refusal.value)


@given(value=st.binary(max_size=80), profile=profiles)
def test_any_bytes_are_parsed_or_refused(value: bytes, profile: Profile) -> None:
    """Any bytes give a value of one of seven types, or one of two errors."""
    try:
        parsed = parse(value, profile)
    except (Undecodable, StackOverflow):
        return
    assert parsed is None or isinstance(parsed, (bool, int, float, str, list, dict))

"""Keys and JSON as a worker's converters read and write them: Kafka's own results, and laws.

The results in `javajson_cases` and in the tables here come from Kafka's published jars.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.core.java import jackson, json_codec
from controlplane.core.java.json_codec import StackOverflow, Undecodable
from controlplane.core.releases.profiles import PROFILES, Profile
from tests.conftest import PROVE
from tests.core.javajson_cases import ALL, ASKED, BAD, BIG, OVERFLOW, JsonCase

NEWEST: Final = Profile.of("4.3.0")
_SHOWN: Final = 200
"""Greatest length of a value that the table shows; it has `BIG` for a longer value."""


def answer(value: bytes, release: str) -> object:
    """Our answer for a value in a release, in the form of the table."""
    try:
        decoded = json_codec.decode(value, Profile.of(release))
    except Undecodable:
        return BAD
    except StackOverflow:
        return OVERFLOW
    return decoded if len(json_codec.encode(decoded)) < _SHOWN else BIG


FLAGS = [name for name in Profile.__struct_fields__ if name.startswith("json_")]


def json_rules(release: str) -> tuple[object, ...]:
    """JSON behaviours of a release; only these distinguish releases here."""
    return tuple(getattr(Profile.of(release), flag) for flag in FLAGS)


def every_answer(value: bytes) -> Iterator[tuple[str, str]]:
    """Each release with its answer; `make test` takes one release for each set of rules."""
    answers: dict[object, str] = {}
    for release in ASKED:
        rules = release if PROVE else json_rules(release)
        if rules not in answers:
            answers[rules] = repr(answer(value, release))
        yield release, answers[rules]


@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=[f"{n}:{case.value!r:.30}" for n, case in enumerate(ALL)])
def test_every_release_answers_as_kafka_does(case: JsonCase) -> None:
    """Our value, with sign of zero and type, or our error equals Kafka's."""
    expected = {release: repr(answer) for release, answer in case.answers().items()}
    assert dict(every_answer(case.value)) == expected


def test_the_table_distinguishes_every_json_flag() -> None:
    """Two releases have equal answers in the table exactly if their JSON flags are equal."""
    rows: dict[tuple[object, ...], set[str]] = {}
    for release in ASKED:
        answers = repr([case.answers()[release] for case in ALL])
        rows.setdefault(json_rules(release), set()).add(answers)
    assert all(len(distinct_answers) == 1 for distinct_answers in rows.values())
    assert len(set.union(*rows.values())) == len(rows)


profiles = st.sampled_from(PROFILES)
numbers = st.from_regex(
    r"-?0{0,3}[0-9]{1,30}(\.[0-9]{1,25})?([eE][-+]?0{0,2}[0-9]{1,12})?", fullmatch=True
)
in_ascii = st.sampled_from([*rb"a k \n \ud83d \ude00 \u0000 \x".split(), b"\x1f", b"\x7f"])
in_utf8 = st.sampled_from([b"\xc3\xa9", b"\xf0\x9f\x98\x80"])
in_odd_utf8 = st.sampled_from([b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80"])
characters = in_ascii | in_utf8 | in_odd_utf8
strings = st.lists(characters, max_size=6).map(lambda parts: b'"' + b"".join(parts) + b'"')
spaces = st.sampled_from([b"", b"", b" ", b"\r\n", b"\t", b"\x0b"])
scalars = (
    numbers.map(str.encode)
    | strings
    | st.sampled_from([b"true", b"false", b"null", b"NaN", b"1e400", b"-0.0", b"1" * 25])
)


def _list(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _object(fields: list[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in fields) + b"}"


documents = st.recursive(
    st.tuples(spaces, scalars, spaces).map(b"".join),
    lambda inner: (
        st.lists(inner, max_size=4).map(_list)
        | st.lists(st.tuples(strings, inner), max_size=4).map(_object)
    ),
    max_leaves=12,
)
endings = st.sampled_from([b"", b"", b"", b" x", b"x", b"}", b"\xff"])
nasty = st.tuples(documents, endings).map(b"".join)
in_encodings = st.tuples(
    nasty, st.sampled_from(["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-le"])
).map(lambda pair: pair[0].decode("latin-1").encode(pair[1]))


def _outcome(parse: object, value: bytes, profile: Profile) -> str:
    assert callable(parse)
    try:
        return repr(parse(value, profile))
    except Undecodable:
        return BAD
    except StackOverflow:
        return OVERFLOW


@given(value=nasty | in_encodings | st.binary(max_size=60), profile=profiles)
@example(value=b'{"a":' + b"1" * 1001 + b',"a":1}', profile=NEWEST)
@example(value=b"[" * 1001 + b"]" * 1001, profile=NEWEST)
@example(value=b"[" * 20_000 + b"]" * 20_000, profile=Profile.of("2.8"))
@example(value=b"[" * 990 + b"]" * 990, profile=NEWEST)
def test_the_fast_decoder_gives_the_value_of_the_slow_one(value: bytes, profile: Profile) -> None:
    """The fast path by msgspec gives the same value as the full parser."""
    assert _outcome(json_codec.decode, value, profile) == _outcome(jackson.parse, value, profile)


@given(value=st.binary(max_size=200) | nasty.map(lambda value: value[::-1]), profile=profiles)
def test_any_bytes_are_decoded_or_refused(value: bytes, profile: Profile) -> None:
    """Decoding any bytes gives a value, or one of two errors with a reason."""
    reason = "fine"
    try:
        json_codec.decode(value, profile)
    except (Undecodable, StackOverflow) as error:
        reason = str(error)
    assert reason


longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | longs | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=20),
    max_leaves=25,
)


@given(value=values)
def test_written_values_are_read_back(value: object) -> None:
    """Encoding and decoding give the value back, under every order of fields."""
    profile = Profile.of("2.3.1")  # keeps the sign of zero
    assert repr(json_codec.decode(json_codec.encode(value), profile)) == repr(value)
    assert json_codec.decode(json_codec.encode_hash_order(value), profile) == value


@given(value=values)
def test_written_values_are_json(value: object) -> None:
    """Python's stricter parser reads the written JSON."""
    assert json.loads(json_codec.encode(value)) == value


WRITTEN: Final[tuple[tuple[object, str], ...]] = (
    ('é\U0001f600\x1f/"\\', '"é\\uD83D\\uDE00\\u001F/\\"\\\\"'),
    ("\b\t\n\f\r\x00\x0b\x7f", r'"\b\t\n\f\r\u0000\u000B' + '\x7f"'),
    ("\u2028\u2029\ufeff\uffff<>&'", '"\u2028\u2029\ufeff\uffff<>&\'"'),
    ("\ud83d", r'"\uD83D"'),
    ("\ude00\ud83d", r'"\uDE00\uD83D"'),
    (None, "null"),
    ([True, False, None], "[true,false,null]"),
    ([-5, 2**63 - 1], "[-5,9223372036854775807]"),
    ([1.5, 1e10, 1e-5, 0.001, -0.0, 5e-324], "[1.5,1.0E10,1.0E-5,0.001,-0.0,4.9E-324]"),
    ([math.inf, -math.inf, math.nan], '["Infinity","-Infinity","NaN"]'),
    ({}, "{}"),
    ([], "[]"),
    ([[], {}], "[[],{}]"),
    ({"b": 1, "a": {"d": [1, {"x": 2}], "c": None}}, '{"b":1,"a":{"d":[1,{"x":2}],"c":null}}'),
    ({"\U0001f600\n": 1}, r'{"\uD83D\uDE00\n":1}'),
)


@pytest.mark.parametrize(("value", "expected"), WRITTEN, ids=[row[1][:30] for row in WRITTEN])
def test_bytes_are_those_that_jackson_writes(value: object, expected: str) -> None:
    """Every release from 0.11 to 4.3 wrote these bytes for these values."""
    assert json_codec.encode(value) == expected.encode()


def test_maps_are_written_in_hash_map_order() -> None:
    """A map from JSON is written in the order of a HashMap, also inside lists and other maps."""
    fields: dict[str, object] = dict.fromkeys(("db", "table", "schema"))
    again = b'{"schema":null,"db":null,"table":null}'
    assert json_codec.encode_hash_order(fields) == again
    nested = json_codec.encode_hash_order([{"b": 1, "a": fields}])
    assert nested == b'[{"a":' + again + b',"b":1}]'


def test_deep_values_overflow_no_stack() -> None:
    """Values far deeper than Python's stack are written, or refused with an error."""
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    assert json_codec.encode(deep) == b"[" * 100_001 + b"]" * 100_001
    with pytest.raises(StackOverflow):
        json_codec.decode(b'{"a":' * 100_000, Profile.of("2.8"))


def test_ordinary_json_is_read_by_the_fast_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector config of any ordinary size is read by msgspec alone."""
    reached: list[bytes] = []
    monkeypatch.setattr(jackson, "parse", lambda value, _profile: reached.append(value))
    config = {f"transforms.{n}.type": f"org.example.Überschrift {n}" for n in range(400)}
    for value in ({"properties": config}, {"pos": 5, "ratio": 1.5}, [1, -(2**63)], "text"):
        assert json_codec.decode(msgspec.json.encode(value), NEWEST) == value
    assert not reached


@given(st.dictionaries(st.text(), st.text() | st.none() | st.booleans() | st.integers()))
def test_the_fast_encoder_writes_the_bytes_of_the_slow_one(value: dict[str, Any]) -> None:
    """The fast encoder writes plain maps as Jackson does, or is not used."""
    for document in (value, {"properties": value}):
        assert json_codec.encode(document) == json_codec._encode(document, iter)


KEYS = {
    b"": "",
    b"\xc3\xa9\xf0\x9f\x98\x80": "é\U0001f600",
    b"\xef\xbb\xbfa": "\ufeffa",
    b"\xed\x9f\xbf": "\ud7ff",
    b"a\x80b": "a?b",
    b"\xff": "?",
    b"\xc3": "?",
    b"\xe2\x82": "?",
    b"\xe2\x82a": "?a",
    b"\xf0\x9f\x98": "?",
    b"\xf0\x9f\x98a": "?a",
    b"\xc0\x80": "??",
    b"\xe0\x80\x80": "???",
    b"\xf4\x90\x80\x80": "????",
    b"\xf8\x88\x80\x80\x80": "?????",
    b"\xed": "?",
    b"\xeda": "?a",
    b"\xed\xa0": "?",
    b"\xed\xa0a": "?a",
    b"\xed\xa0\x80": "?",
    b"\xed\xbf\xbf": "?",
    b"\xed\xa0\xbd\xed\xb8\x80": "??",
}


@pytest.mark.parametrize(("key", "text"), KEYS.items(), ids=[f"{key!r}" for key in KEYS])
def test_keys_are_repaired_as_java_does(key: bytes, text: str) -> None:
    """`?` stands for U+FFFD in this table; Java writes the same number of them."""
    assert json_codec.decode_key(key) == text.replace("?", "\ufffd")


@given(key=st.binary(max_size=20))
def test_no_key_is_undecodable(key: bytes) -> None:
    """Valid UTF-8 is decoded as in Python; other bytes give at most as many U+FFFD as in Python."""
    ours, pythons = json_codec.decode_key(key), key.decode("utf-8", "replace")
    assert ours.replace("\ufffd", "") == pythons.replace("\ufffd", "")
    assert ours.count("\ufffd") <= pythons.count("\ufffd")


def test_a_key_is_written_in_utf8() -> None:
    """A surrogate pair is one character; a lone surrogate becomes a question mark."""
    assert json_codec.encode_key("a\ud800b😀") == "a?b😀".encode()

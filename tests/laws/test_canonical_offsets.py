"""Laws of canonical offsets: each release reads them alike and writes the same bytes."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.core.codec.canonical_offsets import (
    are_canonical_keys,
    are_canonical_values,
    keys_to_decode,
)
from controlplane.core.codec.offsets import (
    decode_offset,
    decode_partition,
    encode_partition,
    identity,
)
from controlplane.core.java import json_codec
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import PROFILES

_NAMES = st.sampled_from(("a", "b", "Aa", "BB", "file name", "", "ä", '"', "\n"))
_NUMBERS = st.sampled_from(
    ("0", "-0", "7", "-7", "1.0", "1e2", "0.1", "01", "9" * 18, "9" * 19, "-1" + "0" * 18, "NaN")
)
_TEXTS = st.sampled_from(('"x"', '""', '"\\u0041"', '"\\n"', '"ö"', '"\x7f"', '"\x01"', '"😀"'))
_CELLS = _NUMBERS | _TEXTS | st.sampled_from(("true", "false", "null", "[1]", "{}", "tru"))
_SEPARATORS = st.sampled_from((",", ",", ",", ", ", ",\n"))


@st.composite
def _documents(draw: st.DrawFn) -> bytes:
    """JSON of a map with few names, mostly as Connect writes it."""
    fields = [
        f'{draw(st.sampled_from(("", "", "", " ")))}"{name}":{draw(_CELLS)}'
        for name in draw(st.lists(_NAMES, max_size=3))
    ]
    return f"{{{draw(_SEPARATORS).join(fields)}}}".encode()


_values = _documents() | st.sampled_from((b"", b"null", b"{}{}", b"{}\n{}", b"[]", b"{", b"\xff"))
_keys = st.builds(
    b'["%b",%b]'.__mod__, st.tuples(st.sampled_from((b"a", b"b", b"\\u0061")), _values)
)


@given(values=st.lists(_values, max_size=3))
@example(values=[b'{"a":', b"1}"])
@example(values=[b"{}\n{}"])
@example(values=['{"a":"😀"}'.encode()])
@example(values=[b'{"a":"\\u001f"}'])
@example(values=[b'{"%b":1}' % (b"n" * 50_001)])
@example(values=[b'{"a":9223372036854775808}'])
def test_canonical_values_are_written_as_they_stand(values: Sequence[bytes]) -> None:
    """Every release encodes a canonical value as it stands in the log."""
    if are_canonical_values(values):
        for value in values:
            for profile in PROFILES:
                offset = decode_offset(value, profile)
                assert not isinstance(offset, Invalid)
                assert json_codec.encode(offset) == value


@given(keys=st.lists(_keys, max_size=4, unique=True))
@example(keys=[b'["a",{"b":1,"a":2}]'])
@example(keys=[b'["a",{"Aa":1,"BB":2}]', b'["a",{"BB":2,"Aa":1}]'])
def test_canonical_keys_are_written_as_they_stand(keys: Sequence[bytes]) -> None:
    """A worker looks up each offset under the key in the log; no two keys name one partition."""
    if are_canonical_keys(keys):
        for profile in PROFILES:
            subjects = [decode_partition(key, profile) for key in keys]
            usable = [subject for subject in subjects if not isinstance(subject, Invalid)]
            written = [encode_partition(each.connector, each.partition) for each in usable]
            assert written == list(keys)
            assert len({identity(subject) for subject in usable}) == len(keys)


@pytest.mark.parametrize(
    "value",
    [b"{}", b'{"a":1}', b'{"file":"binlog.1","pos":-12,"row":null,"snapshot":false}'],
)
def test_usual_offsets_are_canonical(value: bytes) -> None:
    """A list of 25,000 usual values is canonical; so is a key with such a value as partition."""
    assert are_canonical_values([value] * 25_000)
    assert are_canonical_keys([b'["c-1",%b]' % value])


def test_one_unusual_offset_among_many_is_found() -> None:
    """Among 25,000 canonical values or keys, one with white space is found."""
    assert not are_canonical_values([b"{}"] * 25_000 + [b"{ }"] + [b"{}"] * 10)
    keys = [b'["c",{"p":%d}]' % number for number in range(25_000)]
    assert are_canonical_keys(keys)
    assert not are_canonical_keys([*keys, b'["c",{"p": 1}]'])
    assert not are_canonical_keys([b'["c",{"b":1,"a":2}]'])


@given(keys=st.lists(_keys, max_size=3))
def test_other_keys_are_to_be_decoded(keys: Sequence[bytes]) -> None:
    """A key that is not to be decoded is a source partition in every release, as it stands."""
    left = set(keys_to_decode(keys))
    for key in set(keys) - left:
        for profile in PROFILES:
            subject = decode_partition(key, profile)
            assert not isinstance(subject, Invalid)
            assert encode_partition(subject.connector, subject.partition) == key

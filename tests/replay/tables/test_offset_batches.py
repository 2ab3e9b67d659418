"""Batches of the table of offsets: made of columns or of rows, they are the same."""

import random
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.codec.canonical_offsets import are_canonical_keys, are_canonical_values
from controlplane.core.codec.offsets import decode_partition, frozen, plain_fields
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ClusterState
from controlplane.core.text.redaction import may_hold_secrets
from replay.tables import canonical_documents, cells, offset_batches
from replay.tables.canonical_documents import CanonicalDocuments
from replay.tables.cells import tuple_batches
from replay.tables.offset_rows import OFFSET_COLUMNS, offset_rows
from replay.tables.parquet_files import encoded_files
from replay.tables.schemas import OFFSETS
from tests.core.logs import Pair, config, offsets, read, records
from tests.laws.entries import logs, profiles
from tests.recorded_requests import recorded_entries
from tests.replay.fleet.fleets import CLUSTERS
from tests.replay.tables.test_offset_rows import usual_logs

_HEAD = {"cluster": "one", "release": "3.9"}

_ODD_KEYS = (
    *(
        '["a",{"p":1 }]',
        '["b",{"q":null,"p":"x"}]',
        '["\\u0061",{"p":7}]',
        "not JSON",
        "[]",
        "null",
    ),
    *('["a",null]', '["a",{"p":[1]}]', '["ä",{"p":1}]', '["c",{"token":"x"}]', '["d",{"p":1.0}]'),
    *('["e",{"p":"100%"}]', '["f",{"p":"\\n"}]', f'["g",{{"p":"{"x" * 1_000}"}}]', '["",{}]'),
    *('[",",{"p":1}]', '[",h",{"p":1}]', '["h,",{"p":1}]'),
    *('["h",{"Aa":1,"BB":2}]', '["h",{"BB":2,"Aa":1}]', '["token",{"p":1}]', '["\\ud800",{"p":1}]'),
)
_ODD_VALUES = ("null", "{", '{"o":1.5}', '{"o": 1}', '{"password":"x"}', '{"o":' + "9" * 19 + "}")


def _by_columns(state: ClusterState) -> list[pa.RecordBatch]:
    return list(offset_batches.offset_batches(OFFSETS, state, _HEAD, few_rows=0))


def _by_rows(state: ClusterState) -> list[pa.RecordBatch]:
    return list(tuple_batches(OFFSETS, OFFSET_COLUMNS, offset_rows(state), _HEAD))


def _random_pairs(seed: int, count: int) -> Iterator[Pair]:
    """Records of a large log: few odd ones, tombstones, and repeated keys in other spellings."""
    chance = random.Random(seed)
    shapes = (
        '{{"p":{}}}',
        '{{"p":"{}"}}',
        '{{"table":"t{}","db":null}}',
        '{{"db":"t{}","q":true}}',
    )
    for _ in range(count):
        name, number = f"connector-{chance.randrange(12)}", chance.randrange(count)
        partition = chance.choice(shapes).format(number)
        key: str | None = f'["{name}",{partition}]'
        value: str | None = f'{{"file":"log.{number % 7}","pos":{-number}}}'
        if chance.random() < 0.01:
            key = chance.choice((*_ODD_KEYS, f'["{name}", {partition}]'))
        if chance.random() < 0.01:
            value = chance.choice((*_ODD_VALUES, "{}"))
        yield key, None if chance.random() < 0.05 else value


@given(logs() | usual_logs(), profiles)
def test_columns_give_the_batches_of_rows(log: Sequence[Entry], profile: Profile) -> None:
    """Random logs in which spellings, tombstones, topics and secrets interact."""
    state = fold(log, profile)
    assert _by_columns(state) == _by_rows(state)


@pytest.mark.parametrize("history", CLUSTERS.values())
def test_columns_of_recorded_clusters_give_the_batches_of_rows(history: str) -> None:
    """The batches are equal for logs of Kafka's workers, as every release reads them."""
    entries = recorded_entries(history)
    for profile in PROFILES:
        state = fold(entries, profile)
        assert _by_columns(state) == _by_rows(state)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("release", ["2.3", "3.9", "4.3"])
def test_files_are_equal_to_the_byte(
    seed: int, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger logs with some odd records: the encoded Parquet files are the same bytes."""
    monkeypatch.setattr(cells, "BATCH_ROWS", 100)
    monkeypatch.setattr(offset_batches, "BLOCK_ROWS", 512)
    log = offsets(*_random_pairs(seed, 1_500))
    if seed == 3:
        log = config(("connector-connector-5", _OWN)) + log
        log += records("own", *_random_pairs(9, 50))
    state = read(log, release)
    files = [file.content for file in encoded_files(OFFSETS, _by_columns(state))]
    assert files == [file.content for file in encoded_files(OFFSETS, _by_rows(state))]


_OWN = '{"properties":{"offsets.storage.topic":"own"}}'


@pytest.mark.parametrize("key", _ODD_KEYS)
@pytest.mark.parametrize("release", ["2.3", "3.9"])
def test_an_odd_key_has_the_rows_of_its_connector(key: str, release: str) -> None:
    """One odd key among usual ones, and a tombstone of its usual spelling."""
    usual = [(f'["{name}",{{"p":{part}}}]', '{"o":1}') for name in "abch" for part in range(3)]
    for pairs in ([*usual, (key, '{"o":2}')], [(key, '{"o":2}'), *usual, ('["a",{"p":1}]', None)]):
        state = read(offsets(*pairs), release)
        assert _by_columns(state) == _by_rows(state)


@pytest.mark.parametrize("limit", ["SHAPES", "ATTEMPTS", "FIELDS"])
def test_documents_beyond_a_limit_have_the_same_rows(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes that are not learned leave their rows to the decoder."""
    monkeypatch.setattr(canonical_documents, limit, 1)
    pairs = [(f'["c{part % 3}",{{"f{part % 5}":{part}}}]', '{"o":1}') for part in range(30)]
    state = read(offsets(*pairs))
    assert _by_columns(state) == _by_rows(state)


_TEXTS = st.text(st.characters(codec="utf-8", max_codepoint=0x100), max_size=3) | st.sampled_from(
    ("passw", "&amp;", "%41", "${encrypted:", "://", "\\u0041", "9" * 19, "x" * 999)
)
_CELLS = st.sampled_from(("0", "-0", "7", "01", "1.0", "9" * 18, "9" * 19, "true", "null", "[]"))
_MEMBERS = st.tuples(_TEXTS, _CELLS | _TEXTS.map('"{}"'.format)).map(
    lambda member: f'"{member[0]}":{member[1]}'
)
_MAPS = st.lists(_MEMBERS, max_size=3).map(",".join).map("{{{}}}".format)


@given(st.lists(_MAPS | _TEXTS, min_size=1, max_size=5))
def test_plain_values_are_canonical_and_without_secrets(texts: Sequence[str]) -> None:
    """A value that passes is canonical, and no pattern of secrets can match."""
    values = [text.encode() for text in texts]
    mask = CanonicalDocuments.values().among(pa.array(values, pa.binary()))
    passed = [value for value, is_plain in zip(values, mask, strict=True) if is_plain]
    assert are_canonical_values(passed)
    assert not any(may_hold_secrets(value.decode()) for value in passed)


@given(st.lists(st.tuples(_TEXTS, _MAPS | _TEXTS), min_size=1, max_size=5))
def test_plain_keys_are_canonical_and_without_secrets(pairs: Sequence[tuple[str, str]]) -> None:
    """Keys that pass are canonical together; only the name of a connector may hold any word."""
    keys = [f'["{name}",{partition}]'.encode() for name, partition in pairs]
    canonical = CanonicalDocuments.keys()
    mask = canonical.among(pa.array(keys, pa.binary()))
    passed = [key for key, is_plain in zip(keys, mask, strict=True) if is_plain]
    assert are_canonical_keys(passed)
    for key in passed:
        subject = decode_partition(key, Profile.of("3.9"))
        assert not isinstance(subject, Invalid)
        fields = plain_fields(frozen(subject.partition))
        assert fields is not None
        assert canonical.encoded_key(subject.connector, fields) == key
        assert not may_hold_secrets(key.decode().partition('",')[2])


def test_usual_documents_pass() -> None:
    """Offsets as Connect writes them need no decoding, in any number of shapes below the limit."""
    keys = [b'["pass",{"db":"d","table":"t%d"}]' % number for number in range(5)]
    keys += [b'["pass",{"filename":"/var/log/%d.log"}]' % number for number in range(5)]
    values = [b'{"position":%d}' % number for number in range(5)] + [b'{"a":null,"b":"c"}']
    assert CanonicalDocuments.keys().among(pa.array(keys, pa.binary())).all()
    assert CanonicalDocuments.values().among(pa.array(values, pa.binary())).all()


@pytest.mark.parametrize(
    "partition", [None, [], [1, "a"], {"a": {}}, {"a": [1]}, {"a": 1, "b": {}}]
)
def test_only_flat_maps_have_plain_fields(partition: object) -> None:
    """A partition that is no map, or has containers, has no plain fields."""
    assert plain_fields(frozen(partition)) is None

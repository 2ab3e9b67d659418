"""Rows of the table of offsets: copied from records or decoded, they are the same."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ClusterState
from controlplane.core.text.redaction import redacted_text, redacted_value
from controlplane.core.text.safe_text import utf8_text
from replay.tables import cells
from replay.tables.cells import json_cell
from replay.tables.offset_rows import OffsetRow, offset_rows
from replay.tables.schemas import OFFSETS
from replay.tables.state_tables import STATE_TABLES
from tests.core.logs import Pair, config, offsets, read, records
from tests.laws.entries import logs, profiles
from tests.recorded_requests import recorded_entries
from tests.replay.fleet.fleets import CLUSTERS

_KEYS = (
    *('["a",{"p":1}]', '["a",{"p":2}]', '["a",{"p":1 }]', '["b",{"p":"x","q":null}]'),
    *('["b",{"q":null,"p":"x"}]', '["b",{"token":"x"}]', '["a-1",{}]', '["c",{"p":"\\u0041"}]'),
)
_VALUES = (None, None, '{"o":1}', '{"o":2}', '{"o":1.5}', '{"password":"hunter2"}', "null", "{")


@st.composite
def usual_logs(draw: st.DrawFn) -> list[Entry]:
    """Offsets of few connectors, mostly as Connect writes them, in two topics."""
    pairs = st.lists(st.tuples(st.sampled_from(_KEYS), st.sampled_from(_VALUES)), max_size=12)
    own = ("connector-a", '{"properties":{"offsets.storage.topic":"own"}}')
    written: list[Pair] = [*draw(pairs)]
    configs = config(own) if draw(st.booleans()) else []
    return configs + offsets(*written) + records("own", *draw(st.just([]) | pairs))


def decoded_rows(state: ClusterState) -> Iterator[OffsetRow]:
    """Rows by decoding each record, connector by connector."""
    for name in views.offset_owners(state):
        connector, listed = utf8_text(name), views.all_source_offsets(state, name)
        for view in listed.shown:
            offset = None if view.offset is None else redacted_value("", view.offset)
            partition = json_cell(redacted_value("", view.partition))
            yield connector, partition, json_cell(offset), None
        for unusable in listed.left_out:
            partition = json_cell(redacted_value("", unusable.partition))
            yield connector, partition, None, utf8_text(redacted_text(unusable.reason))


@given(logs() | usual_logs(), profiles)
def test_rows_are_those_of_decoded_records(log: Sequence[Entry], profile: Profile) -> None:
    """Random logs in which spellings, tombstones, topics and secrets interact."""
    state = fold(log, profile)
    assert list(offset_rows(state)) == list(decoded_rows(state))


@pytest.mark.parametrize("history", CLUSTERS.values())
def test_rows_of_recorded_clusters_are_those_of_decoded_records(history: str) -> None:
    """The rows are equal for logs of Kafka's workers, as every release reads them."""
    entries = recorded_entries(history)
    for profile in PROFILES:
        state = fold(entries, profile)
        assert list(offset_rows(state)) == list(decoded_rows(state))


@pytest.mark.parametrize("release", ["2.3", "3.5", "3.9", "4.3"])
def test_a_hidden_partition_has_the_row_of_its_decoded_record(release: str) -> None:
    """A tombstone hides the other spelling of a key, which still has a value."""
    log = offsets(
        ('["a",{"p":1}]', '{"o":1}'),
        ('["a",{"p":2}]', '{"o":2}'),
        ('["a",{"p":1 }]', None),
    )
    state = read(log, release)
    assert list(offset_rows(state)) == list(decoded_rows(state))


@pytest.mark.parametrize("release", ["3.2", "3.9"])
def test_offsets_in_own_topics_have_the_rows_of_decoded_records(release: str) -> None:
    """A connector has offsets in its own topic and in the worker's: the rows are equal."""
    log = config(("connector-a", '{"properties":{"offsets.storage.topic":"own"}}'))
    log += offsets(('["a",{"p":1}]', '{"o":1}'), ('["a",{"p":2}]', '{"o":2}'))
    log += records("own", ('["a",{"p":2}]', '{"o":3}'), ('["a",{"p":3}]', '{"o":4}'))
    state = read(log, release)
    assert list(offset_rows(state)) == list(decoded_rows(state))


def test_secrets_are_hidden() -> None:
    """A secret in an offset or a source partition is redacted, wherever it stands."""
    state = read(
        offsets(
            ('["a",{"p":1}]', '{"password":"hunter2"}'),
            ('["b",{"url":"jdbc:x://me:hunter2@host/"}]', "{}"),
            ('["c",{"p":1}]', '{"query":"Secret=hunter2"}'),
            ('["d",{"p":"pass%77ord=hunter2"}]', "{}"),
        )
    )
    text = str(list(offset_rows(state)))
    assert text.count("[hidden]") == 4
    assert "hunter2" not in text


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches have the rows in order, `BATCH_ROWS` at a time, and the columns of the schema."""
    monkeypatch.setattr(cells, "BATCH_ROWS", 2)
    pairs = [(f'["{name}",{{"p":{part}}}]', '{"o":1}') for name in "abc" for part in range(3)]
    state = read(offsets(*pairs))
    table = STATE_TABLES["offsets"]
    batches = list(table.batches(OFFSETS, "one", state))
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 2, 1]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == list(table.of("one", state))

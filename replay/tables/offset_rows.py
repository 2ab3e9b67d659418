"""Rows of the table of offsets.

The table shows decoded and redacted JSON. For canonical records without secrets, this is the JSON
of the log: it is copied. Decoding and encoding it would take ten times as long.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

from controlplane.core import views
from controlplane.core.codec.canonical_offsets import are_canonical_keys, are_canonical_values
from controlplane.core.codec.offsets import decode_partition, identity
from controlplane.core.records import Invalid
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.text.redaction import any_may_hold_secrets, redacted_text, redacted_value
from controlplane.core.text.safe_text import utf8_text
from controlplane.core.topics.source_partitions import OffsetsByConnector
from replay.tables.cells import json_cell

OFFSET_COLUMNS = ("connector", "partition", "offset", "problem")

OffsetRow = tuple[str, str | None, str | None, str | None]
"""Cells of a row, in the order of `OFFSET_COLUMNS`."""


def offset_rows(state: ClusterState) -> Iterator[OffsetRow]:
    """Source offsets of every connector, existing or deleted."""
    offsets = OffsetsByConnector(state)
    return connector_rows(state, offsets, offsets.names)


def connector_rows(
    state: ClusterState, offsets: OffsetsByConnector, names: Iterable[str]
) -> Iterator[OffsetRow]:
    """Source offsets of some connectors, in the order of their names."""
    hiding = {connector for part in state.offsets.values() for connector, _ in part.hidden}
    for name in names:
        own = offsets.state_of(name)
        yield from _copied(own, name, hides=name in hiding) or _decoded(own, name)


def _copied(state: ClusterState, name: str, *, hides: bool) -> Iterator[OffsetRow] | None:
    """Rows with the JSON of the log; None: it has to be decoded."""
    topic = state.topics.offsets
    if views.offsets_topics(state, name) != [topic]:
        return None
    part = state.offsets.get(topic, OffsetState())
    records = _shown_records(state, part) if hides else part.values
    keys = [key for key in records if key is not None]
    values = [value for value in records.values() if value is not None]
    if not (are_canonical_keys(keys) and are_canonical_values(values)):
        return None
    partitions = _partition_texts(keys, name)
    offsets = [None if value is None else value.decode() for value in records.values()]
    if any_may_hold_secrets(partitions) or any_may_hold_secrets([*filter(None, offsets)]):
        return None
    return zip(repeat(utf8_text(name)), partitions, offsets, repeat(None), strict=False)


def _partition_texts(keys: Sequence[bytes], name: str) -> list[str]:
    """Source partitions of a connector, as the JSON text in its canonical keys."""
    begin = f'["{name}",'
    end = "]\n"  # canonical keys have no line feed
    lines = b"\n".join(keys).decode() + "\n"
    return lines[len(begin) : -len(end)].split(end + begin) if keys else []


def _shown_records(state: ClusterState, part: OffsetState) -> Mapping[bytes | None, bytes | None]:
    """Records of source partitions that no tombstone has removed (`OffsetState.hidden`).

    Records with unusable keys are included.
    """
    shown = {}
    for key, value in part.values.items():
        subject = decode_partition(key, state.profile)
        if isinstance(subject, Invalid) or identity(subject) not in part.hidden:
            shown[key] = value
    return shown


def _decoded(state: ClusterState, name: str) -> Iterator[OffsetRow]:
    connector = utf8_text(name)
    offsets = views.all_source_offsets(state, name)
    for view in offsets.shown:
        offset = None if view.offset is None else redacted_value("", view.offset)
        yield connector, json_cell(redacted_value("", view.partition)), json_cell(offset), None
    for unusable in offsets.left_out:
        partition = json_cell(redacted_value("", unusable.partition))
        yield connector, partition, None, utf8_text(redacted_text(unusable.reason))

"""Comparison of a plan with the records that appeared in the cluster's topics. Pure.

Only workers write these topics. So a record that differs from the plan shows a foreign change,
another release, or the workers of another cluster.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from controlplane.core.entry import Entry, Position
from controlplane.core.moments import position_text
from controlplane.core.plan import Draft, Plan
from controlplane.core.state import Topics
from controlplane.core.text.redaction import redacted_text

AS_PLANNED, DIFFERS, NOT_COMPARED = "as planned", "differs", "not compared"
"""Results of a comparison, as the trail has them."""

PATHS_NAMED = 5
"""Maximum number of fields of a value that one sentence names."""


class Comparison(NamedTuple):
    """Result of a comparison: sentences about differences, and the records of the command."""

    differences: tuple[str, ...]
    records: tuple[Position, ...]
    """Positions of the planned records, in the order of the plan."""
    missing: tuple[Draft, ...] = ()
    """Planned records that have not appeared."""
    differing: tuple[Draft, ...] = ()
    """Planned records whose keys have appeared with other values only."""

    @property
    def proves_plan(self) -> bool:
        """True if each planned record has appeared with its planned value."""
        return not (self.missing or self.differing)

    @property
    def as_planned(self) -> bool:
        """True if exactly the planned records have appeared."""
        return not self.differences


def compare(plan: Plan, entries: Iterable[Entry], topics: Topics, connector: str) -> Comparison:
    """Compare the records of a plan with the entries since its command was accepted.

    An unplanned entry is a difference only if it comes from a request about the connector. Such
    entries are configs, target states and restarts. Other unplanned entries are ignored: statuses,
    for example, and the task configs and commits that the connector's owner publishes.
    """
    pool = [entry for entry in entries if not entry.aborted]
    matches = list(_matches(plan, pool))
    matched = [entry for _, entry in matches if entry is not None]
    missing = tuple(draft for draft, entry in matches if entry is None)
    differing = tuple(
        draft
        for draft, entry in matches
        if entry is not None and not _is_equal(draft.value, entry.value)
    )
    differences = [
        *(f"{_key(draft.key)} is missing in {draft.topic}" for draft in missing),
        *_different(matches, topics),
        *_disordered(matched, topics),
        *_foreign(pool, matched, topics, connector),
    ]
    positions = tuple(entry.position for entry in matched)
    return Comparison(tuple(differences), positions, missing, differing)


def comparison_facts(comparison: Comparison | None, topics: Topics) -> dict[str, Any]:
    """Return a comparison as the trail has it; None: the log could not be read."""
    if comparison is None:
        return {"compared": NOT_COMPARED}
    facts: dict[str, Any] = {
        "compared": AS_PLANNED if comparison.as_planned else DIFFERS,
        "records": [position_text(position, topics) for position in comparison.records],
    }
    if comparison.differences:
        facts["differences"] = list(comparison.differences)
    return facts


def has_appeared(plan: Plan, entries: Sequence[Entry]) -> bool:
    """Return True if each planned record is there, with the planned value."""
    return all(
        entry is not None and _is_equal(draft.value, entry.value)
        for draft, entry in _matches(plan, entries)
    )


def has_foreign_request(
    plan: Plan, entries: Iterable[Entry], topics: Topics, connector: str
) -> bool:
    """Return True if a request about the connector has written a value that the plan lacks.

    A planned record may appear twice: a command that was cut off may repeat its request.
    """
    drafts = [draft for step in plan.steps for draft in step.records]
    return any(
        not any(
            _is_same_key(draft, entry) and _is_equal(draft.value, entry.value) for draft in drafts
        )
        for entry in _requests(entries, topics, connector)
    )


def topics_of(plan: Plan, topics: Topics) -> tuple[str, ...]:
    """Topics that a comparison reads: those that the plan writes, and the config topic."""
    written = (draft.topic for step in plan.steps for draft in step.records)
    return tuple(dict.fromkeys((topics.config, *written)))


def _matches(plan: Plan, pool: Sequence[Entry]) -> Iterator[tuple[Draft, Entry | None]]:
    """Yield each planned record with its entry: one with the same key and an equal value.

    Without such an entry, the first one with the same key; None: no entry has the key. Each entry
    belongs to at most one planned record.
    """
    left: dict[tuple[str, bytes | None], list[Entry]] = {}
    for entry in pool:
        left.setdefault((entry.topic, entry.key), []).append(entry)
    for draft in (draft for step in plan.steps for draft in step.records):
        of_key = left.get((draft.topic, draft.key), [])
        alike = [entry for entry in of_key if _is_same_key(draft, entry)]
        equal = (entry for entry in alike if _is_equal(draft.value, entry.value))
        match = next(equal, None) or next(iter(alike), None)
        if match is not None:
            of_key.remove(match)
        yield draft, match


def _is_same_key(draft: Draft, entry: Entry) -> bool:
    is_same_partition = draft.partition is None or draft.partition == entry.partition
    return entry.topic == draft.topic and entry.key == draft.key and is_same_partition


def _is_equal(planned: bytes | None, actual: bytes | None) -> bool:
    """True for equal bytes, or equal JSON: the order of a Java map cannot be predicted."""
    if planned == actual:
        return True
    if planned is None or actual is None:
        return False
    first, second = _decoded(planned), _decoded(actual)
    # None stands for a value that is no JSON: two such values must not count as equal.
    return first is not None and _sorted_text(first) == _sorted_text(second)


def _sorted_text(value: Any) -> str:
    """JSON text with sorted members, by which values are compared.

    The values themselves are not compared, because in Python `True` equals 1, and 1 equals 1.0.
    A value that is nested too deeply to be written equals no other value.
    """
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return str(id(value))


def _decoded(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _different(matches: Iterable[tuple[Draft, Entry | None]], topics: Topics) -> Iterator[str]:
    for draft, entry in matches:
        if entry is None or _is_equal(draft.value, entry.value):
            continue
        where = f"{position_text(entry.position, topics)} ({_key(draft.key)})"
        if entry.value is None or draft.value is None:
            written = "a tombstone" if entry.value is None else "a value"
            yield f"{where} is {written}, not as planned"
        else:
            try:
                paths = [*_paths(_decoded(draft.value), _decoded(entry.value))]
            except RecursionError:
                paths = []
            ellipsis = ", …" if len(paths) > PATHS_NAMED else ""
            named = ", ".join(paths[:PATHS_NAMED]) or "its text"
            yield f"{where} differs from the plan in {named}{ellipsis}"


def _paths(planned: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields in which two JSON values differ. Values may be secret: none is named."""
    if isinstance(planned, Mapping) and isinstance(actual, Mapping):
        for name in sorted({*planned, *actual}):
            inner = f"{path}.{name}" if path else name
            if name not in planned or name not in actual:
                yield redacted_text(inner)
            else:
                yield from _paths(planned[name], actual[name], inner)
    elif _sorted_text(planned) != _sorted_text(actual):
        yield redacted_text(path)


def _disordered(matched: Sequence[Entry], topics: Topics) -> Iterator[str]:
    last: dict[tuple[str, int], Entry] = {}
    for entry in matched:
        before = last.get((entry.topic, entry.partition))
        if before is not None and before.offset > entry.offset:
            place, later = (position_text(each.position, topics) for each in (entry, before))
            yield f"{place} lies before {later}, but was planned after it"
        last[entry.topic, entry.partition] = entry


def _foreign(
    pool: Iterable[Entry], matched: Sequence[Entry], topics: Topics, connector: str
) -> Iterator[str]:
    """Requests about the same connector that are not in the plan: configs, states, restarts."""
    planned = {entry.position for entry in matched}
    for entry in _requests(pool, topics, connector):
        if entry.position not in planned:
            yield f"{position_text(entry.position, topics)} ({_key(entry.key)}) was not planned"


def _requests(pool: Iterable[Entry], topics: Topics, connector: str) -> Iterator[Entry]:
    """Records about a connector that only a request of a client causes."""
    keys = {f"{prefix}-{connector}".encode("utf-8", "replace") for prefix in _REQUESTS}
    return (entry for entry in pool if entry.topic == topics.config and entry.key in keys)


_REQUESTS = ("connector", "target-state", "restart-connector")
"""Prefixes of the keys of records that only a request of a client causes."""


def _key(key: bytes | None) -> str:
    """Text of a key; the key of an offset may hold a secret, which is hidden."""
    return redacted_text((key or b"").decode("utf-8", "replace"))

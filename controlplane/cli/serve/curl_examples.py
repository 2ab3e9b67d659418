"""Three curl commands to try on a served log, with connectors of that log.

The third shows a connector as two releases see it at the end of the log. If they agree there, it
shows the latest moment at which their answers differ. Both releases fold the config and status
topics side by side. Their answers are compared after each record that the two treat differently.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from controlplane.core import views
from controlplane.core.codec import decode_config, decode_status
from controlplane.core.entry import Entry
from controlplane.core.fold import Fold
from controlplane.core.moments import position_text
from controlplane.core.order import Ends, entries_of, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.event_loop import sliced
from controlplane.logs.log import ReadableLog
from controlplane.rest.endpoints.pure_requests import answer
from controlplane.rest.endpoints.reads import ReadInputs

EARLIER, LATER = "3.4", "3.9"
"""Releases that are compared: only the later one can stop connectors (KIP-875)."""

SEARCHED_RECORDS = 50_000
"""Maximum number of records to search for a difference; more would take seconds."""


class Contrast(NamedTuple):
    """Path that two releases answer differently, and the moment (None: now)."""

    path: str
    moment: str | None


def lines(url: str, state: ClusterState, contrast: Contrast | None) -> list[str]:
    """Three curl lines. `state` is that of the release which is served by default."""
    best = next(iter(_by_plainness(views.connectors(state))), None)
    if best is None:
        return [_curl(url + path) for path in ("/", "/connectors", "/connectors?profile=3.4")]
    shown = "offsets" if _has_offsets(state, best) else "status"
    path, moment = contrast or Contrast(_path(best, "status"), None)
    past = f"as_of={moment}&" if moment else ""
    return [
        _curl(f"{url}/connectors"),
        _curl(url + _path(best, shown)),
        _curl(f"{url}{path}?{past}profile={{{EARLIER},{LATER}}}"),
    ]


def _curl(url: str) -> str:
    return f"curl -s -w '\\n' '{url}'"


def _path(name: str, endpoint: str) -> str:
    return f"/connectors/{quote(name, safe='', errors='surrogatepass')}/{endpoint}"


def _by_plainness(names: Sequence[str]) -> list[str]:
    """Sort names: those that need no quoting first, then by length."""
    return sorted(names, key=lambda name: (not re.fullmatch(r"[\w-]+", name, re.ASCII), len(name)))


def _has_offsets(state: ClusterState, name: str) -> bool:
    """True if a connector has source offsets, and the log has not too many to search."""
    offsets = sum(len(part.values) for part in state.offsets.values())
    many = offsets > SEARCHED_RECORDS
    return state.profile.rest_offsets and not many and bool(views.source_offsets(state, name))


async def find_contrast(log: ReadableLog, topics: Topics, ends: Ends) -> Contrast | None:
    """Find a difference between two releases at the end of the log, or else the latest one."""
    names = [topic for topic in (topics.config, topics.status) if topic in ends]
    starts = await log.starts(names)
    if sum(sum(ends[topic]) - sum(starts[topic]) for topic in names) > SEARCHED_RECORDS:
        return None
    stop = {topic: ends[topic] for topic in names}
    batches = [batch async for batch in log.read(names, stop=stop)]
    return await latest_contrast(in_order(entries_of(batches)), topics)


async def latest_contrast(entries: Sequence[Entry], topics: Topics) -> Contrast | None:
    """Find the latest difference; `entries` are configs and statuses, sorted by `in_order`.

    The work takes seconds for a long log. Requests are answered meanwhile.
    """
    folds = [Fold(Profile.of(release), topics=topics) for release in (EARLIER, LATER)]
    latest = None
    async for entry in sliced(entries):
        kinds = {fold.apply(entry).kind for fold in folds}
        if len(kinds) > 1:
            # The record can only affect its own connector; comparing all would take too long.
            path = await _differing(folds, _named(entry, topics))
            latest = Contrast(path, _moment(entry, topics)) if path else latest
    path = await _differing(folds, _by_plainness(views.connectors(folds[-1].snapshot())))
    return latest if path is None else Contrast(path, None)


def _named(entry: Entry, topics: Topics) -> list[str]:
    """The connector that a record is about, as the later release reads it."""
    decode = decode_config if entry.topic == topics.config else decode_status
    record = decode(entry.key, entry.value, Profile.of(LATER))
    name = getattr(record, "connector", None)
    return [] if name is None else [name]


async def _differing(folds: Sequence[Fold], names: Sequence[str]) -> str | None:
    """The first path of these connectors whose answers differ, but have the same HTTP status."""
    states = [fold.snapshot() for fold in folds]
    async for name in sliced(names):
        for endpoint in ("status", "tasks"):
            path = _path(name, endpoint)
            earlier, later = (answer(ReadInputs(state), path) for state in states)
            if earlier.status == later.status and earlier.body != later.body:
                return path
    return None


def _moment(entry: Entry, topics: Topics) -> str:
    return position_text(entry.position, topics)

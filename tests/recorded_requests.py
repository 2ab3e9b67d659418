"""Requests of recorded clusters: the writing worker, its state, and its records."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import before, in_order
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.dumps import read_dump
from controlplane.plugins import catalogued
from controlplane.scenario.story import StoryStep, read_story

HISTORIES = Path(__file__).parent / "histories"

BEFORE_COMPACTION = {"compacted-3.9": "compacted-3.9.before"}
"""By history, the log with the records that compaction has removed."""

LEADERS = {"roll-3.4-3.9-3.4": {1: "old1", 8: "old2", 16: "new1", 26: "old1", 36: "new1"}}
"""Leading worker from each step on; in other histories one worker lives at a time."""

EXACTLY_ONCE = frozenset({"exactly-once-3.9"})
"""Histories whose workers ran with exactly-once support."""


class RecordedRequest(NamedTuple):
    """One request of a recorded history, and the log around it."""

    history: str
    step: StoryStep
    entries: list[Entry]
    """The whole log of the history, in order."""
    worker: Profile
    """Release of the worker that got the request."""
    leader: Profile

    @property
    def body(self) -> bytes | None:
        """Body that the request was sent with."""
        return body_of(self.step)

    def state(self, writer: Profile, *read: Entry) -> ClusterState:
        """State of a writer at the request, after reading further records."""
        entries = [*before(self.entries, self.step.before), *read]
        return fold(entries, writer, exactly_once=self.history in EXACTLY_ONCE)

    def written_entries(self) -> list[Entry]:
        """All records from the request until the cluster was quiet, in order."""
        earlier = {entry.position for entry in before(self.entries, self.step.before)}
        until = before(self.entries, self.step.positions)
        return [entry for entry in until if entry.position not in earlier]


def body_of(step: StoryStep) -> bytes | None:
    """Request body as bytes; a string was sent without JSON quotes."""
    if step.body is None or isinstance(step.body, str):
        return step.body.encode() if step.body else None
    return msgspec.json.encode(step.body)


def recorded() -> Iterator[RecordedRequest]:
    """Every request of every history, in order."""
    for path in sorted(HISTORIES.glob("*.story.jsonl")):
        history = path.name.removesuffix(".story.jsonl")
        yield from _requests(history, read_story(path))


def _requests(history: str, steps: list[StoryStep]) -> Iterator[RecordedRequest]:
    entries = recorded_entries(history)
    releases = {step.worker: step.release for step in steps if step.release is not None}
    for step in steps:
        if step.kind == "compacted":
            entries = recorded_entries(
                history, compacted=True
            )  # a worker that starts now reads these records
        elif step.kind == "request":
            leader = _leader(history, step) or step.worker
            worker, led = (Profile.of(releases[name]) for name in (step.worker, leader))
            yield RecordedRequest(history, step, entries, worker, led)


def recorded_entries(history: str, *, compacted: bool = False) -> list[Entry]:
    """The records of a log in order: all that were ever written, or those left by compaction."""
    earlier = BEFORE_COMPACTION.get(history)
    names = [history] if compacted or earlier is None else [earlier, history]
    dumps = [read_dump(HISTORIES / f"{name}.log.jsonl") for name in names]
    united = {entry.position: entry for dump in dumps for entry in dump.entries}
    return in_order(sorted(united.values(), key=lambda entry: entry.offset))


def _leader(history: str, step: StoryStep) -> str | None:
    led = [name for since, name in LEADERS.get(history, {}).items() if since <= step.n]
    return led[-1] if led else None


WITHOUT_MIRRORS = ("life-2.8", "life-3.4", "life-3.9")
"""Clusters without MirrorMaker's connectors; a refusal lists all installed connectors."""


@cache
def plugins_of(history: str) -> Plugins:
    """The connector classes that were installed on a recorded cluster."""
    return catalogued(msgspec.json.encode(installed(history)))


def installed(history: str) -> list[dict[str, Any]]:
    """The installed connector classes, as a catalogue file."""
    listed = msgspec.json.decode((HISTORIES / "catalogue.json").read_bytes())
    absent = "org.apache.kafka.connect.mirror." if history in WITHOUT_MIRRORS else "none"
    return [plugin for plugin in listed if not plugin["class"].startswith(absent)]

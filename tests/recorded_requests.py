"""Requests of recorded clusters: who wrote because of them, what he knew, and what he wrote."""

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
"""A log of what compaction took from another one."""

LEADERS = {"roll-3.4-3.9-3.4": {1: "old1", 8: "old2", 16: "new1", 26: "old1", 36: "new1"}}
"""From which step on a worker leads; elsewhere one worker lives at a time."""

EXACTLY_ONCE = frozenset({"exactly-once-3.9"})
"""Histories in which those who were asked ran with exactly-once support."""


class RecordedRequest(NamedTuple):
    """One request of a recorded history, and the log around it."""

    history: str
    step: StoryStep
    entries: list[Entry]
    """The whole log of the history, in order."""
    worker: Profile
    """The release of the worker that was asked."""
    leader: Profile

    @property
    def body(self) -> bytes | None:
        """Body that the request was sent with."""
        return body_of(self.step)

    def state(self, writer: Profile, *read: Entry) -> ClusterState:
        """State of a writer when the request came, after it had read further records."""
        entries = [*before(self.entries, self.step.before), *read]
        return fold(entries, writer, exactly_once=self.history in EXACTLY_ONCE)

    def written_entries(self) -> list[Entry]:
        """All records from when the request was sent until all was quiet, in order."""
        earlier = {entry.position for entry in before(self.entries, self.step.before)}
        until = before(self.entries, self.step.positions)
        return [entry for entry in until if entry.position not in earlier]


def body_of(step: StoryStep) -> bytes | None:
    """Request body as bytes; a string was sent as it is, without JSON quotes."""
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
            entries = recorded_entries(history, compacted=True)  # whoever starts now reads this
        elif step.kind == "request":
            leader = _leader(history, step) or step.worker
            worker, led = (Profile.of(releases[name]) for name in (step.worker, leader))
            yield RecordedRequest(history, step, entries, worker, led)


def recorded_entries(history: str, *, compacted: bool = False) -> list[Entry]:
    """The records of a log, in order: all there ever were, or what compaction has left of them."""
    earlier = BEFORE_COMPACTION.get(history)
    names = [history] if compacted or earlier is None else [earlier, history]
    dumps = [read_dump(HISTORIES / f"{name}.log.jsonl") for name in names]
    united = {entry.position: entry for dump in dumps for entry in dump.entries}
    return in_order(sorted(united.values(), key=lambda entry: entry.offset))


def _leader(history: str, step: StoryStep) -> str | None:
    led = [name for since, name in LEADERS.get(history, {}).items() if since <= step.n]
    return led[-1] if led else None


WITHOUT_MIRRORS = ("life-2.8", "life-3.4", "life-3.9")
"""Clusters without MirrorMaker's connectors: a refusal there lists all connectors that were."""


@cache
def plugins_of(history: str) -> Plugins:
    """The connector classes that were installed on a recorded cluster."""
    return catalogued(msgspec.json.encode(installed(history)))


def installed(history: str) -> list[dict[str, Any]]:
    """The same, as a catalogue file lists them."""
    listed = msgspec.json.decode((HISTORIES / "catalogue.json").read_bytes())
    absent = "org.apache.kafka.connect.mirror." if history in WITHOUT_MIRRORS else "none"
    return [plugin for plugin in listed if not plugin["class"].startswith(absent)]

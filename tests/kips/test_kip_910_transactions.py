"""KIP-910 with exactly-once support: the hook's offsets and the records are one append."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from controlplane.connect import RetriableError
from controlplane.core.entry import Position
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from tests.kips.running_source import (
    HookedTask,
    Pairs,
    PlainSource,
    Script,
    committed,
    record,
    scripted,
)
from tests.worker.worker_fixture import task_trace, until, until_state

BOUNDARIES = pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
POLLS_PER_REQUEST = 3
"""Number of polls for each commit that the task requests."""


class Append(NamedTuple):
    """One append to the log: the values of its records, and its offsets by partition."""

    values: list[str]
    offsets: dict[str, int | None]


class RecordingLog(MemoryLog):
    """Log that keeps each append of records or of source offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[Append] = []

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append, and keep the values and offsets."""
        positions = await super().append(records, epoch)
        values = [(each.value or b"").decode() for each in records if each.topic == "t"]
        offsets = {
            json.loads(each.key or b"")[1]["p"]: json.loads(each.value)["at"]
            if each.value is not None
            else None
            for each in records
            if each.topic == "connect-offsets"
        }
        if values or offsets:
            self.appends.append(Append(values, offsets))
        return positions


class RequestingTask(HookedTask):
    """Requests a commit at every third poll, where the connector sets the boundaries."""

    polls = 0

    def poll(self) -> Any:
        """Return the next scripted poll; request a commit if it is due."""
        self.polls += 1
        if self.context.transaction is not None and self.polls % POLLS_PER_REQUEST == 0:
            self.context.transaction.commit()
        return super().poll()


class RequestingSource(PlainSource):
    """Connector whose task is a `RequestingTask`."""

    task = RequestingTask


class AbortingTask(HookedTask):
    """Requests an abort of each poll with records."""

    def poll(self) -> Any:
        """Return the next scripted poll; request its abort if it has records."""
        polled = super().poll()
        if polled and self.context.transaction is not None:
            self.context.transaction.abort()
        return polled


class AbortingSource(PlainSource):
    """Connector whose task is an `AbortingTask`."""

    task = AbortingTask


def hook_of(output: Any) -> Any:
    """Hook that returns the output, or raises it, if its argument has offsets."""

    def hook(shown: Pairs) -> Any:
        if shown and isinstance(output, Exception):
            raise output
        return output if shown else None

    return hook


def at(partition: str, offset: int | None) -> tuple[Any, Any]:
    """Offset in the form of the hook; None: the partition gets a tombstone."""
    return {"p": partition}, None if offset is None else {"at": offset}


READ = {"a": 1, "b": 1}
"""Offsets of the two records that the task polls."""


class TestExactlyOnceSupportEnabled:
    """Exactly Once Support- Enabled."""

    @pytest.mark.parametrize(
        ("output", "expected"),
        [
            (None, READ),
            ({}, READ),
            ([at("a", 9)], {"a": 9, "b": 1}),
            ([at("new", 7)], READ | {"new": 7}),
            ([at("a", None)], {"a": None, "b": 1}),
            ([at("gone", None)], READ | {"gone": None}),
            ([at("a", 9), at("new", 7), at("b", None)], {"a": 9, "b": None, "new": 7}),
            (RetriableError("not now"), READ),
        ],
        ids=["null", "empty", "changed", "added", "tombstone", "other tombstone", "all", "retried"],
    )
    @BOUNDARIES
    async def test_one_append(
        self, boundary: str, output: Any, expected: dict[str, int | None]
    ) -> None:
        """One append has the records, their offsets and the hook's output, which wins."""
        log = RecordingLog()
        script = Script([[record("a", 1), record("b", 1)]], hook_of(output))
        async with scripted(script, RequestingSource, boundary=boundary, log=log) as worker:
            await until(lambda: log.appends)
            commits = script.calls.count("commit")
            await until(lambda: script.calls.count("commit") >= commits + 3)
            assert log.appends == [Append(["1", "1"], expected)]
            kept = {name: offset for name, offset in expected.items() if offset is not None}
            await until(lambda: committed(worker) == kept)

    @BOUNDARIES
    async def test_one_call_for_each_commit(self, boundary: str) -> None:
        """The worker calls the hook once per commit, with the offsets of that commit alone."""
        log = RecordingLog()
        script = Script([[record("a", number)] for number in range(1, 13)])
        async with scripted(script, RequestingSource, boundary=boundary, log=log) as worker:
            await until(lambda: committed(worker) == {"a": 12})
            calls = script.calls
            await until(lambda: calls.count("commit") > 5 and calls.count("poll") > 30)
            until_hook = " ".join(calls).split(" hook ")
        polls_per_commit = {"poll": 1, "connector": POLLS_PER_REQUEST}.get(boundary)
        first, *later = (part.split() for part in until_hook[:-1])
        assert all(part[0] == "commit" for part in later)
        for polls in (first, *(part[1:] for part in later)):
            assert {*polls} == {"poll"}
            assert polls_per_commit in {None, len(polls)}
        shown = [offsets["a"]["at"] for offsets in script.offsets_shown if offsets]
        assert shown == [append.offsets["a"] for append in log.appends]
        assert shown == [int(append.values[-1]) for append in log.appends]
        assert [value for append in log.appends for value in append.values] == [
            str(number) for number in range(1, 13)
        ]

    @BOUNDARIES
    async def test_offsets_without_records(self, boundary: str) -> None:
        """Each output of a hook without records is a transaction of its own."""
        log = RecordingLog()
        script = Script([])
        script.hook = lambda _: [at("beat", script.calls.count("hook"))]
        async with scripted(script, RequestingSource, boundary=boundary, log=log):
            await until(lambda: len(log.appends) >= 3)
        assert log.appends[:3] == [Append([], {"beat": number}) for number in (1, 2, 3)]

    async def test_abort(self) -> None:
        """The hook's offsets join those of aborted records; the records do not come."""
        log = RecordingLog()
        script = Script([[record("a", 1)]], hook_of([at("a", 9), at("new", 7)]))
        async with scripted(script, AbortingSource, boundary="connector", log=log):
            await until(lambda: log.appends)
            polls = script.calls.count("poll")
            await until(lambda: script.calls.count("poll") > polls + 1)
        assert log.appends == [Append([], {"a": 9, "new": 7})]
        assert script.calls.count("hook") == 1

    @BOUNDARIES
    async def test_failure(self, boundary: str) -> None:
        """A hook that raises fails its task; neither records nor offsets are committed."""
        log = RecordingLog()
        script = Script([[record("a", 1)]], hook_of(ValueError("no offsets today")))
        async with scripted(script, RequestingSource, boundary=boundary, log=log) as worker:
            await until_state(worker, "source", "RUNNING", "FAILED")
            assert "no offsets today" in task_trace(worker, "source")
        assert log.appends == []

"""KIP-910: offsets of a source without records."""

import asyncio
import threading
from itertools import groupby, pairwise
from typing import Any, ClassVar

import pytest

from controlplane.connect import RetriableError, Source, SourceRecord, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, PauseConnector, StopConnector
from controlplane.logs.memory import MemoryLog
from tests.kips.running_source import (
    OUTPUTS,
    HoldingLog,
    HookedTask,
    Pairs,
    PlainSource,
    RecordingLog,
    RequestingSource,
    Script,
    ScriptedTask,
    committed,
    hook_of,
    record,
    scripted,
)
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import (
    config_of,
    entries_in,
    offsets,
    running,
    until,
    until_state,
    until_values,
    values_in,
)


def once(*pairs: tuple[str, int | None]) -> Any:
    """A hook that returns these offsets if its argument has offsets, and else nothing."""

    def hook(shown: Pairs) -> Any:
        if not shown:
            return None
        return [({"p": name}, None if at is None else {"at": at}) for name, at in pairs]

    return hook


class TestPublicInterfaces:
    """Public Interfaces."""

    async def test_the_hook_is_called_before_the_commit(self) -> None:
        """The worker calls the hook before it commits the offsets of produced records."""
        script = Script([[record("a", 1)]])
        async with scripted(script) as worker:
            await until(lambda: committed(worker) == {"a": 1} and "commit" in script.calls)
            hook_call = script.calls.index("hook")
            assert hook_call < script.calls.index("commit")
            assert {"a": {"at": 1}} in script.offsets_shown

    async def test_the_hook_adds_a_partition(self) -> None:
        """The task may add offsets of partitions that its argument lacks."""
        async with scripted(Script([[record("a", 1)]], once(("new", 7)))) as worker:
            await until(lambda: committed(worker) == {"a": 1, "new": 7})

    async def test_an_omitted_partition_is_committed(self) -> None:
        """A partition that the hook omits is committed all the same."""
        script = Script([[record("a", 1), record("b", 2)]], once(("a", 5)))
        async with scripted(script) as worker:
            await until(lambda: committed(worker) == {"a": 5, "b": 2})

    async def test_a_null_offset_writes_a_tombstone(self) -> None:
        """A partition that the hook maps to null gets a tombstone."""
        current = [once(("gone", 3))]

        def hook(shown: Pairs) -> Any:
            return current[-1](shown)

        script = Script([[record("a", 1)]], hook)
        async with scripted(script) as worker:
            await until(lambda: committed(worker) == {"a": 1, "gone": 3})
            current.append(once(("gone", None)))
            script.polls.append([record("a", 2)])
            await until(lambda: committed(worker) == {"a": 2})
            tombstones = [
                entry.value is None
                async for batch in worker.plane.log.read(["connect-offsets"])
                for entry in batch.entries()
                if b"gone" in (entry.key or b"")
            ]
        # A call of the hook that overlaps a commit returns its offset once more.
        assert [tombstone for tombstone, _ in groupby(tombstones)] == [False, True]

    @OUTPUTS
    async def test_the_output_is_committed_in_place_of_the_input(
        self, output: Any, expected: dict[str, int | None]
    ) -> None:
        """The hook's output is committed; an input offset that it replaces never is."""
        log = RecordingLog()
        script = Script([[record("a", 1), record("b", 1)]], hook_of(output))
        async with scripted(script, log=log) as worker:
            await until(lambda: expected.keys() <= log.offsets.keys())
            kept = {name: offset for name, offset in expected.items() if offset is not None}
            await until(lambda: committed(worker) == kept)
        written = {pair for append in log.appends for pair in append.offsets.items()}
        assert written == {*expected.items()}

    async def test_a_task_without_the_hook_changes_nothing(self) -> None:
        """A task that has no such method changes nothing."""
        script = Script([[record("a", 1)]])
        async with scripted(script, PlainSource) as worker:
            await until(lambda: committed(worker) == {"a": 1})
            assert "hook" not in script.calls


class TestProposedChanges:
    """Proposed Changes."""

    async def test_the_hook_sees_acknowledged_offsets(self) -> None:
        """The task sees the last acknowledged offset of each partition, not the last polled one."""
        log = HoldingLog()
        polled = [[record("a", 1), record("a", 2)], [record("a", 3, "held")]]
        script = Script(polled)
        async with scripted(script, log=log) as worker:
            await until(lambda: committed(worker) == {"a": 2})
            await until(lambda: not script.polls)
            assert all(shown in ({}, {"a": {"at": 2}}) for shown in script.offsets_shown)
            assert {"a": {"at": 2}} in script.offsets_shown
            log.released.set()
            await until(lambda: committed(worker) == {"a": 3})

    async def test_a_changed_offset_is_committed(self) -> None:
        """The hook's changed offset is the committed one."""
        async with scripted(Script([[record("a", 1)]], once(("a", 9)))) as worker:
            await until(lambda: committed(worker) == {"a": 9})

    async def test_an_empty_output_changes_nothing(self) -> None:
        """A hook that returns an empty map changes no offset."""
        script = Script([[record("a", 1)]], lambda _: {})
        async with scripted(script) as worker:
            await until(lambda: committed(worker) == {"a": 1})
            assert "hook" in script.calls

    @pytest.mark.parametrize("boundary", [None, "poll"])
    async def test_a_retriable_error_adds_nothing(self, boundary: str | None) -> None:
        """A hook that raises a retriable error adds nothing; the task goes on."""

        def hook(_: Pairs) -> Any:
            raise RetriableError("not now")

        async with scripted(Script([[record("a", 1)]], hook), boundary=boundary) as worker:
            await until(lambda: committed(worker) == {"a": 1})
            await until_state(worker, "source", "RUNNING", "RUNNING")

    async def test_changes_of_the_argument_have_no_effect(self) -> None:
        """Changes of the argument have no effect."""

        def hook(shown: Pairs) -> None:
            for partition, offset in shown:
                offset["at"] = 99
                partition["p"] = "changed"

        async with scripted(Script([[record("a", 1)]], hook)) as worker:
            await until(lambda: committed(worker) == {"a": 1})


class TestExactlyOnceSupportDisabled:
    """Exactly Once Support- Disabled."""

    async def test_every_commit_calls_the_hook(self) -> None:
        """The worker calls the hook with every scheduled commit."""
        script = Script([[record("a", 1)]])
        async with scripted(script) as worker:
            await until(lambda: committed(worker) == {"a": 1})
            script.polls.append([record("a", 2)])
            await until(lambda: committed(worker) == {"a": 2})
            shown = [offsets for offsets in script.offsets_shown if offsets]
            assert (shown[0], shown[-1]) == ({"a": {"at": 1}}, {"a": {"at": 2}})

    async def test_unacknowledged_partitions_are_not_committed(self) -> None:
        """A partition is committed only after a record of it has been acknowledged."""
        log = HoldingLog()
        script = Script([[record("a", 1)], [record("b", 1, "held")]])
        async with scripted(script, log=log) as worker:
            await until(lambda: committed(worker) == {"a": 1})
            assert "b" not in committed(worker)
            log.released.set()
            await until(lambda: committed(worker) == {"a": 1, "b": 1})

    async def test_output_counts_as_acknowledged(self) -> None:
        """An offset that the hook returns counts as acknowledged."""
        calls: list[int] = []

        def hook(_: Pairs) -> Any:
            calls.append(1)
            return [({"p": "beat"}, {"at": 1})]

        async with scripted(Script([], hook)) as worker:
            await until(lambda: committed(worker) == {"beat": 1})
            assert calls

    async def test_the_hook_is_called_between_polls(self) -> None:
        """The hook is called before the first poll, and after each one.

        The records of a poll are processed before the call.
        """
        script = Script([[record("a", 1)], [record("a", 2)]])
        async with scripted(script) as worker:
            await until(lambda: committed(worker) == {"a": 2})
        steps = [call for call in script.calls if call != "commit"]
        assert steps[0] == "hook"
        assert steps.count("poll") > 2
        assert all(
            (before, after) in {("hook", "poll"), ("poll", "hook")}
            for before, after in pairwise(steps)
        )

    async def test_the_last_commit_calls_no_hook(self) -> None:
        """The last commit of a task calls no hook; the KIP does not specify this."""
        BlockedPollTask.blocked.clear()
        BlockedPollTask.released.clear()
        script = Script([[record("a", 1)]])
        async with scripted(script, BlockedPollSource) as worker:
            await until(BlockedPollTask.blocked.is_set)
            stopping = asyncio.ensure_future(worker.plane.execute(StopConnector("source")))
            await asyncio.sleep(0.05)
            BlockedPollTask.released.set()
            await stopping
            await until_state(worker, "source", "STOPPED")
            assert committed(worker) == {"a": 1}
        last_poll = len(script.calls) - script.calls[::-1].index("poll")
        assert {*script.calls[last_poll:]} == {"commit"}

    async def test_a_paused_task_gets_no_call(self) -> None:
        """The hook of a paused task is not called, although its offsets are still committed."""
        log = HoldingLog()
        script = Script([[record("a", 1, "held")]])
        async with scripted(script, log=log) as worker:
            await until(lambda: script.calls.count("poll") > 2)
            await worker.plane.execute(PauseConnector("source"))
            await until_state(worker, "source", "PAUSED", "PAUSED")
            calls = [call for call in script.calls if call != "commit"]
            commits = script.calls.count("commit")
            log.released.set()
            await until(lambda: script.calls.count("commit") > commits + 2)
            await until(lambda: committed(worker) == {"a": 1})
            assert [call for call in script.calls if call != "commit"] == calls


class BlockedPollTask(HookedTask):
    """Blocks in the poll after the last scripted one."""

    blocked: ClassVar[threading.Event] = threading.Event()
    released: ClassVar[threading.Event] = threading.Event()

    def poll(self) -> Any:
        """Return the next scripted poll, or block."""
        polled = super().poll()
        if polled is None:
            self.blocked.set()
            self.released.wait(PATIENCE_S)
        return polled


class BlockedPollSource(PlainSource):
    """Source whose task is a `BlockedPollTask`."""

    task = BlockedPollTask


class AheadTask(ScriptedTask):
    """The third poll blocks; the hook returns the position of the last poll."""

    blocked: ClassVar[threading.Event] = threading.Event()
    released: ClassVar[threading.Event] = threading.Event()
    position = 0

    def poll(self) -> Any:
        """Return the next record; it has no offset of its own."""
        self.position += 1
        if self.position == 3:
            self.blocked.set()
            self.released.wait(PATIENCE_S)
        if self.context.transaction is not None:
            self.context.transaction.commit()
        return [SourceRecord(topic="t", value=str(self.position))]

    def update_offsets(self, offsets: Pairs) -> Any:
        """Return the current position as offset of partition `a`."""
        del offsets
        return [({"p": "a"}, {"at": self.position})]


class AheadSource(PlainSource):
    """Source whose task is an `AheadTask`."""

    task = AheadTask


class TestExactlyOnceSupportEnabled:
    """Exactly Once Support- Enabled."""

    @pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
    async def test_the_last_commit_calls_no_hook(self, boundary: str) -> None:
        """The last commit calls no hook: it could cover a poll that the stop has dropped."""
        AheadTask.blocked.clear()
        AheadTask.released.clear()
        async with scripted(Script([]), AheadSource, boundary=boundary) as worker:
            await until(AheadTask.blocked.is_set)
            stopping = asyncio.ensure_future(worker.plane.execute(StopConnector("source")))
            await asyncio.sleep(0.05)
            AheadTask.released.set()
            await stopping
            await until_state(worker, "source", "STOPPED")
            written = await values_in(worker.plane.log, "t")
            assert committed(worker).get("a", 0) <= len(written)

    async def test_the_commit_before_a_pause_calls_no_hook(self) -> None:
        """The commit before a pause calls no hook."""
        script = Script([])
        async with scripted(script, boundary="poll") as worker:
            await until(lambda: "commit" in script.calls)
            await worker.plane.execute(PauseConnector("source"))
            await until_state(worker, "source", "PAUSED", "PAUSED")
            assert script.calls[-3:] == ["hook", "commit", "commit"]

    async def test_the_argument_has_offsets_of_one_transaction(self) -> None:
        """The worker calls the hook just before it flushes a transaction's offsets.

        The argument has the offsets of this transaction only.
        """
        script = Script([[record("a", 1)], [record("b", 2)]])
        async with scripted(script, boundary="poll") as worker:
            await until(lambda: committed(worker) == {"a": 1, "b": 2})
        assert [shown for shown in script.offsets_shown if shown] == [
            {"a": {"at": 1}},
            {"b": {"at": 2}},
        ]

    async def test_output_joins_the_transaction(self) -> None:
        """An offset that the hook returns is part of the same transaction."""
        script = Script([[record("a", 1)]], once(("new", 7)))
        async with scripted(script, boundary="poll") as worker:
            await until(lambda: committed(worker) == {"a": 1, "new": 7})
            times = {
                entry.timestamp
                async for batch in worker.plane.log.read(["connect-offsets", "t"])
                for entry in batch.entries()
            }
            assert len(times) <= 2  # one append; its records get their times one after another

    async def test_offsets_without_records_form_a_transaction(self) -> None:
        """Offsets without records form a transaction, too."""
        beats = iter(range(1, 100))
        script = Script([], lambda _: [({"p": "beat"}, {"at": next(beats, 99)})])
        async with scripted(script, boundary="poll") as worker:
            await until(lambda: committed(worker).get("beat", 0) >= 3)
            assert await values_in(worker.plane.log, "t") == []

    async def test_the_hook_is_called_when_the_interval_ends(self) -> None:
        """With an interval, the worker calls the hook when the transaction is due."""
        script = Script([[record("a", 1)]], once(("new", 7)))
        async with scripted(script, boundary="interval") as worker:
            await until(lambda: committed(worker) == {"a": 1, "new": 7})

    async def test_without_requested_boundaries_there_is_no_call(self) -> None:
        """With `transaction.boundary=connector`, a task without requests gets no call."""
        script = Script([[record("a", 1)], [record("a", 2)]], once(("new", 7)))
        async with scripted(script, boundary="connector") as worker:
            await until(lambda: not script.polls and script.calls.count("poll") > 5)
            assert "hook" not in script.calls
            assert committed(worker) == {}
            assert await values_in(worker.plane.log, "t") == []


class TestMigration:
    """Migration Plan and Compatibility."""

    @pytest.mark.parametrize("boundary", [None, "poll", "interval", "connector"])
    async def test_older_releases_never_call_the_hook(self, boundary: str | None) -> None:
        """A connector with that method runs in older releases, which never call it.

        The boundary None means at least once.
        """
        script = Script([[record("a", 1)]], once(("a", 9)))
        async with scripted(script, RequestingSource, boundary=boundary, release="3.9.1") as worker:
            await until(lambda: committed(worker))
            commits = script.calls.count("commit")
            await until(lambda: script.calls.count("commit") > commits + 2)
            assert committed(worker) == {"a": 1}
            assert "hook" not in script.calls


class BookmarkSource(Source):
    """Reads the rows `a` and `b`, unless a committed bookmark covers both."""

    config = (key("by"),)
    pauses = 0
    """Pauses after the rows, in all runs."""

    async def read(self, task: SourceRun) -> Any:
        """Yield the rows, and the bookmark if the config says so."""
        while task.offset({"p": "bookmark"}) is not None:
            yield task.idle(0.005)
        yield [
            SourceRecord(
                topic="held", value="a", source_partition={"p": "a"}, source_offset={"at": 1}
            ),
            SourceRecord(
                topic="t", value="b", source_partition={"p": "b"}, source_offset={"at": 1}
            ),
        ]
        if task.config["by"] == "mark":
            yield task.mark([({"p": "bookmark"}, {"at": 2})])
        while True:
            BookmarkSource.pauses += 1
            yield task.idle(0.005)

    def update_offsets(self, task: SourceRun, offsets: Any) -> Any:
        """Return the bookmark, if the config leaves it to the hook."""
        del offsets
        return [({"p": "bookmark"}, {"at": 2})] if task.config["by"] == "hook" else None


async def _several_commits() -> None:
    """Wait until the source has paused for the time of ten commits after its rows."""
    pauses = BookmarkSource.pauses
    await until(lambda: BookmarkSource.pauses > pauses + 50)


class TestMark:
    """Invoking updateOffsets – the hook alone loses data, a mark does not."""

    async def test_the_hook_alone_commits_rows_in_flight(self) -> None:
        """The hook's bookmark is committed while a row that it covers is still in flight."""
        log = HoldingLog()
        async with running(BookmarkSource, log=log) as worker:
            await worker.plane.execute(CreateConnector("s", config_of(BookmarkSource, by="hook")))
            await until(lambda: "{'p': 'bookmark'}" in offsets(worker, "s"))
            assert await values_in(log, "held") == []
            log.released.set()

    @pytest.mark.parametrize(("by", "rows"), [("hook", []), ("mark", [b"a"])])
    async def test_only_the_hook_loses_a_row_in_a_crash(self, by: str, rows: list[bytes]) -> None:
        """The process ends while row `a` is in flight. The next one reads from the bookmark."""
        log = HoldingLog()
        async with running(BookmarkSource, log=log) as worker:
            await worker.plane.execute(CreateConnector("s", config_of(BookmarkSource, by=by)))
            if by == "hook":
                await until(lambda: "{'p': 'bookmark'}" in offsets(worker, "s"))
            await _several_commits()
            crashed = MemoryLog()
            for topic, partitions in (await log.topics()).items():
                await crashed.create_topic(topic, partitions)
                await crashed.put(await entries_in(log, topic))
            log.released.set()
        async with running(BookmarkSource, log=crashed) as worker:
            await until_state(worker, "s", "RUNNING", "RUNNING")
            await until(lambda: "{'p': 'bookmark'}" in offsets(worker, "s"))
            assert await values_in(crashed, "held") == rows

    async def test_a_mark_waits(self) -> None:
        """A mark is committed only when every earlier row is in the log."""
        log = HoldingLog()
        async with running(BookmarkSource, log=log) as worker:
            await worker.plane.execute(CreateConnector("s", config_of(BookmarkSource, by="mark")))
            await _several_commits()
            assert "{'p': 'bookmark'}" not in offsets(worker, "s")
            log.released.set()
            await until(lambda: "{'p': 'bookmark'}" in offsets(worker, "s"))
            await until_values(log, "held", [b"a"])

"""KIP-910 with exactly-once support: the hook's offsets and the records are one append."""

from typing import Any, ClassVar

import pytest

from tests.kips.running_source import (
    OUTPUTS,
    POLLS_PER_REQUEST,
    Append,
    HookedTask,
    PlainSource,
    RecordingLog,
    RequestingSource,
    Script,
    at,
    committed,
    hook_of,
    record,
    scripted,
)
from tests.worker.worker_fixture import task_trace, until, until_state

BOUNDARIES = pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])


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


class EarlyEndTask(HookedTask):
    """Ends the transaction after the first record of each poll."""

    ends_with: ClassVar[str] = "commit"

    def poll(self) -> Any:
        """Return the next scripted poll; request a boundary at its first record."""
        polled = super().poll()
        if polled and self.context.transaction is not None:
            getattr(self.context.transaction, self.ends_with)(polled[0])
        return polled


class EarlyEndSource(PlainSource):
    """Connector whose task is an `EarlyEndTask`."""

    task = EarlyEndTask


class TestExactlyOnceSupportEnabled:
    """Exactly Once Support- Enabled."""

    @OUTPUTS
    @BOUNDARIES
    async def test_records_offsets_and_output_are_one_append(
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
    async def test_output_without_records_is_a_transaction(self, boundary: str) -> None:
        """If there are no records, each output of the hook is a transaction of its own."""
        log = RecordingLog()
        script = Script([])
        script.hook = lambda _: [at("beat", script.calls.count("hook"))]
        async with scripted(script, RequestingSource, boundary=boundary, log=log):
            await until(lambda: len(log.appends) >= 3)
        assert log.appends[:3] == [Append([], {"beat": number}) for number in (1, 2, 3)]

    async def test_output_joins_offsets_of_aborted_records(self) -> None:
        """The hook's offsets and those of aborted records are one append, without the records."""
        log = RecordingLog()
        script = Script([[record("a", 1)]], hook_of([at("a", 9), at("new", 7)]))
        async with scripted(script, AbortingSource, boundary="connector", log=log):
            await until(lambda: log.appends)
            polls = script.calls.count("poll")
            await until(lambda: script.calls.count("poll") > polls + 1)
        assert log.appends == [Append([], {"a": 9, "new": 7})]
        assert script.calls.count("hook") == 1

    @pytest.mark.parametrize(("ends_with", "values"), [("commit", ["1"]), ("abort", [])])
    async def test_no_output_joins_a_transaction_that_ends_within_a_poll(
        self, ends_with: str, values: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The hook's offsets could cover the records that follow in the poll."""
        monkeypatch.setattr(EarlyEndTask, "ends_with", ends_with)
        log = RecordingLog()
        polls = [[record("a", 1), record("a", 2)], [record("a", 3)]]
        script = Script(polls, lambda _: [at("a", 3 - len(script.polls))])
        async with scripted(script, EarlyEndSource, boundary="connector", log=log):
            await until(lambda: len(log.appends) >= 2)
        later = {"commit": ["2", "3"], "abort": []}[ends_with]
        assert log.appends[:2] == [Append(values, {"a": 1}), Append(later, {"a": 3})]

    @BOUNDARIES
    async def test_a_failing_hook_commits_nothing(self, boundary: str) -> None:
        """A hook that raises fails its task; neither records nor offsets are committed."""
        log = RecordingLog()
        script = Script([[record("a", 1)]], hook_of(ValueError("no offsets today")))
        async with scripted(script, RequestingSource, boundary=boundary, log=log) as worker:
            await until_state(worker, "source", "RUNNING", "FAILED")
            assert "no offsets today" in task_trace(worker, "source")
        assert log.appends == []

"""Fixture `connector_trial`, with which authors test their connectors."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from controlplane import Refusal
from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import PauseConnector
from controlplane.worker import trial
from controlplane.worker.blocking_trial import StartTrial
from tests.patience import wait_until
from tests.worker.failing_records import Picky, ValuesSource, transformed_by

pytest_plugins = ["pytester"]


class FailingAfterIdle(Source):
    """Source that fails after its first idle period."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Raise OSError after an idle period."""
        yield task.idle(0)
        raise OSError("no device")


class Writing(Sink):
    """Sink that writes values to a file."""

    config = (key("file"),)

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Append the values to the file."""
        with Path(task.config["file"]).open("a", encoding="utf-8") as file:
            file.writelines(f"{record.value}\n" for record in records)


def test_a_trial_runs_a_source(connector_trial: StartTrial) -> None:
    """Records and offsets arrive while a synchronous test waits; commands are carried out."""
    run = connector_trial(ValuesSource, {"topic": "t", "values": "a,b"})
    assert [record.value for record in run.records("t", 2)] == [b"a", b"b"]
    assert run.offsets({"at": 2}) == [({"source": "values"}, {"at": 2})]
    run.execute(PauseConnector("trial"))
    assert run.status("PAUSED", "PAUSED").trace is None


def test_a_trial_runs_a_sink(connector_trial: StartTrial, tmp_path: Path) -> None:
    """Records are put, and their offsets committed."""
    out = tmp_path / "out.txt"
    run = connector_trial(Writing, {"topics": "t", "file": str(out)})
    run.produce("t", ["a", "b"])
    run.consumed("t", 2)
    assert out.read_text() == "a\nb\n"


def test_two_trials_have_a_log_each(connector_trial: StartTrial) -> None:
    """A trial does not see the records of another one."""
    for value in ("a", "b"):
        run = connector_trial(ValuesSource, {"topic": "t", "values": value})
        assert [record.value for record in run.records("t", 1)] == [value.encode()]


def test_a_failed_task_fails_the_test(connector_trial: StartTrial) -> None:
    """The message has the trace with the author's line."""
    run = connector_trial(FailingAfterIdle, {})
    with pytest.raises(AssertionError, match="OSError: no device"):
        run.records("t", 1)


def test_a_time_out_names_the_failures(
    connector_trial: StartTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the states of connector and tasks, and the last line of a trace."""
    run = connector_trial(FailingAfterIdle, {})
    run.status("RUNNING", "FAILED")
    monkeypatch.setattr(trial, "PATIENCE_S", 0.01)
    with pytest.raises(
        AssertionError,
        match=r"in vain for .*: the connector is RUNNING, task 0 is FAILED \(OSError: no device\)$",
    ):
        run.status("RUNNING", "RUNNING")


def test_a_time_out_without_a_failure_names_the_states(
    connector_trial: StartTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the states: they show whether a connector lacks tasks or records."""
    run = connector_trial(ValuesSource, {"topic": "t", "values": "a"})
    run.status("RUNNING", "RUNNING")
    monkeypatch.setattr(trial, "PATIENCE_S", 0.01)
    with pytest.raises(AssertionError, match=r"the connector is RUNNING, task 0 is RUNNING$"):
        run.records("t", 2)


class UnableToSplit(Source):
    """Source without task configs."""

    def split(self, config: Mapping[str, str], limit: int) -> Sequence[Mapping[str, str]]:
        """Raise OSError."""
        raise OSError(f"no tables for {limit} tasks, {len(config)} settings")


def test_a_time_out_has_the_failure_of_split(
    connector_trial: StartTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector without tasks fails the test with the reason, which no status has."""
    run = connector_trial(UnableToSplit, {})
    run.status("RUNNING")
    wait_until(lambda: bool(run._running._notices.split_failure), "the failure of `split`")
    monkeypatch.setattr(trial, "PATIENCE_S", 0.01)
    with pytest.raises(
        AssertionError, match=r"is RUNNING; `split` failed: OSError\('no tables for 1 tasks"
    ):
        run.records("t", 1)


def test_a_trial_has_transformations_of_its_author(connector_trial: StartTrial) -> None:
    """A config may name the classes in `plugins`."""
    config = {"topic": "t", "values": "a,bad", **transformed_by(Picky)}
    run = connector_trial(ValuesSource, config, plugins=[Picky])
    with pytest.raises(AssertionError, match="cannot read bad"):
        run.records("t", 2)


def test_an_invalid_config_is_refused(connector_trial: StartTrial) -> None:
    """The trial raises the refusal of the REST API."""
    with pytest.raises(Refusal, match='Missing required configuration "topic"'):
        connector_trial(ValuesSource, {})


def test_nothing_outlives_a_test(pytester: pytest.Pytester) -> None:
    """At the end of a test its connectors and threads have ended."""
    pytester.makepyfile(
        """
        import threading
        from tests.worker.failing_records import ValuesSource

        def test_one(connector_trial):
            run = connector_trial(ValuesSource, {"topic": "t", "values": "a"})
            run.records("t", 1)

        def test_nothing_is_left():
            assert "trials" not in {thread.name for thread in threading.enumerate()}
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio").assert_outcomes(
        passed=2
    )
    assert "trials" not in {thread.name for thread in threading.enumerate()}


def test_packages_get_the_fixture() -> None:
    """Pytest loads the fixture by an entry point, without an import."""
    points = {point.name: point.value for point in entry_points(group="pytest11")}
    assert points["controlplane-connectors"] == "controlplane.worker.pytest_plugin"

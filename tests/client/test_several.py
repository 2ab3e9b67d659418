"""One command for several connectors: one plan for all, one after the other, and a summary."""

import asyncio
import json
import re
import signal
from collections.abc import Sequence

import click
import httpx
import pytest

from controlplane.client.commands.batch import (
    ConnectorChange,
    ConnectorResult,
    act_on_each,
    change_each,
)
from controlplane.client.http.request_errors import Declined, Unavailable, Unsupported, WaitTimedOut
from controlplane.terminal.exit_codes import INTERRUPTED
from tests.client.client_calls import ClusterCalls, FakeWorker
from tests.conftest import ROOT
from tests.forked_commands import started

NAMES = ("jdbc-a", "jdbc-b", "jdbc-c")
POLL_S = 0.2
PATTERN = ("--all", "-e", "jdbc-.*")


@pytest.fixture
def three(cluster: ClusterCalls) -> ClusterCalls:
    """Cluster with three connectors that match the pattern, and another one."""
    for name in (*NAMES, "other"):
        cluster.create(name)
    return cluster


def targets(cluster: ClusterCalls) -> dict[str, str]:
    """State column of `get`, by connector."""
    lines = cluster.output("get").splitlines()[2:]
    return {line.split()[0]: line.split()[2] for line in lines}


def test_a_dry_run_is_one_plan(three: ClusterCalls) -> None:
    """One table in execution order has the records of each connector; none is written."""
    title, heads, _, *lines = three.output("pause", *PATTERN, "--dry-run").splitlines()
    assert title == "3 connectors would be paused: 3 records"
    assert heads.split() == ["CONNECTOR", "STEP", "TOPIC", "KEY", "VALUE", "THEN"]
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert all(f"target-state-{name}" in line for name, line in zip(NAMES, lines, strict=True))
    assert targets(three) == dict.fromkeys((*NAMES, "other"), "RUNNING")


def test_the_plan_precedes_the_changes_and_the_summary(three: ClusterCalls) -> None:
    """The dry run's plan, a line for each connector, and the number of each result."""
    planned = three.output("stop", *PATTERN, "--dry-run")
    printed = three.output("stop", *PATTERN)
    assert printed.startswith(planned)
    *lines, empty, heads, _, summary = printed.removeprefix(planned).splitlines()
    assert lines == [f"{name}: stopped" for name in NAMES]
    assert (empty, heads.split()) == ("", ["RESULT", "NUMBER", "CONNECTORS"])
    assert summary.split(maxsplit=2) == ["stopped", "3", ", ".join(NAMES)]
    assert targets(three) == {**dict.fromkeys(NAMES, "STOPPED"), "other": "RUNNING"}


def test_one_connector_has_neither_plan_nor_summary(three: ClusterCalls) -> None:
    """A pattern with one match prints a line, like a name."""
    assert three.output("stop", "--all", "-e", "jdbc-a") == "jdbc-a: stopped\n"


def test_the_plan_precedes_the_question(three: ClusterCalls) -> None:
    """`delete` asks after the plan; a no deletes none."""
    result = three.ask("delete", *PATTERN, typed="n\n")
    assert result.code == 1
    assert result.out == three.output("delete", *PATTERN, "--dry-run")
    assert "delete jdbc-a, jdbc-b, jdbc-c? [y/N]" in result.err
    assert len(targets(three)) == len(NAMES) + 1


def test_the_others_follow_one_that_is_refused(three: ClusterCalls) -> None:
    """The refused connector has no plan; summary and exit code report it."""
    result = three.ask("pause", "jdbc-a", "nix", "jdbc-b")
    assert result.code == 3
    assert result.out.startswith("2 connectors would be paused: 2 records\n")
    assert result.err == (
        "nix: no plan: Unknown connector nix\nError: nix: Unknown connector nix\n"
    )
    summary = [line.split(maxsplit=2) for line in result.out.splitlines()[-2:]]
    assert summary == [["paused", "2", "jdbc-a, jdbc-b"], ["failed", "1", "nix"]]
    documents = json.loads(three.ask("resume", "nix", "jdbc-a", "-o", "json").out)
    assert documents == [
        {
            "connector": "nix",
            "result": "failed",
            "error": "Unknown connector nix",
            "exit_code": 3,
        },
        {"connector": "jdbc-a", "result": "resumed"},
    ]


def test_a_dry_run_reports_refusals_too(three: ClusterCalls) -> None:
    """The other connectors are planned; the exit code is that of the refusal."""
    result = three.ask("pause", "jdbc-a", "nix", "--dry-run")
    assert result.code == 3
    assert result.out.startswith("1 connector would be paused: 1 record\n")
    assert result.err == "Error: nix: Unknown connector nix\n"


@pytest.mark.parametrize("words", [("-e", "x.*"), (*PATTERN[:2], "x.*"), ("-e", "x", "y")])
def test_patterns_that_match_nothing_are_refused(
    three: ClusterCalls, words: tuple[str, ...]
) -> None:
    """One sentence, exit code 3, and nothing planned or changed."""
    for options in ((), ("--dry-run",)):
        reason = three.refused("stop", *words, *options)
        assert reason.endswith(": `controlplane get` lists all")


def test_names_beside_all_are_refused(three: ClusterCalls) -> None:
    """Names together with `--all` are refused without -e."""
    result = three.ask("stop", "--all", "jdbc-a")
    assert (result.code, result.out) == (2, "")
    assert "add -e for patterns" in result.err


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ((Declined, Unavailable, Declined), Unavailable.exit_code),
        ((Unavailable, WaitTimedOut), WaitTimedOut.exit_code),
        ((Declined, Declined), Declined.exit_code),
    ],
)
def test_the_worst_outcome_sets_the_exit_code(
    failures: Sequence[type[click.ClickException]],
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A change that may have been made outranks a refusal; every connector is tried."""
    causes = {f"c{number}": kind for number, kind in enumerate(failures)}
    tried = []

    async def act(name: str) -> ConnectorResult:
        tried.append(name)
        if name in causes:
            raise causes[name]("for this reason")
        return ConnectorResult(name, "stopped")

    with pytest.raises(SystemExit) as ended:
        asyncio.run(act_on_each([*causes, "last"], act, "table"))
    assert ended.value.code == code
    assert tried == [*causes, "last"]
    summary = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()[-2:]]
    assert summary == [
        ["failed", str(len(causes)), ", ".join(causes)],
        ["stopped", "1", "last"],
    ]


def test_a_refusal_of_several_lines_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Line breaks of a refusal are no escapes; other control characters are."""

    async def act(name: str) -> ConnectorResult:
        raise Declined(f"{name} has 1 error(s):\nInvalid \x1b value")

    with pytest.raises(SystemExit):
        asyncio.run(act_on_each(["a", "b"], act, "table"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["Error: a: a has 1 error(s):", "Invalid \\u001b value"]


async def test_workers_of_kafka_refuse_a_dry_run_once() -> None:
    """One sentence covers all connectors, before any request about them."""
    worker = FakeWorker(httpx.Response(202))

    async def act(name: str) -> ConnectorResult:
        raise AssertionError(name)

    with pytest.raises(Unsupported, match="has no dry run"):
        await change_each(
            await worker.api(), NAMES, ConnectorChange(act, act), "table", dry_run=True
        )
    assert worker.requests == []


@pytest.mark.parametrize("form", ["table", "json"])
async def test_an_interrupted_command_sums_up(three: ClusterCalls, form: str) -> None:
    """Ctrl-C prints one failure, one in doubt, and the others as not begun; exit code 130.

    No worker runs here, so the command waits for the second connector until Ctrl-C.
    """
    words = ("stop", "nix", *NAMES, "--wait", "--timeout", "3600", "-c", three.where, "-o", form)
    program = await started(*words, cwd=ROOT)
    while (await asyncio.to_thread(targets, three))["jdbc-a"] != "STOPPED":
        assert program.returncode is None
        await asyncio.sleep(POLL_S)
    program.send_signal(signal.SIGINT)
    out, err = (output.decode() for output in await program.communicate())
    assert program.returncode == INTERRUPTED, err
    assert "jdbc-a: interrupted; the request may have been carried out, so check\n" in err
    results = {"nix": "failed", "jdbc-a": "interrupted", "jdbc-b, jdbc-c": "not begun"}
    if form == "json":
        shown = {row["connector"]: row["result"] for row in json.loads(out)}
        assert shown == {name: did for names, did in results.items() for name in names.split(", ")}
    else:
        rows = [re.split(r"  +", line) for line in out.splitlines()[-3:]]
        assert {names: did for did, _, names in rows} == results
    assert (await asyncio.to_thread(targets, three))["jdbc-b"] == "RUNNING"

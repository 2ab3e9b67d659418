"""Secrets and deeply nested values anywhere in a log: secrets are hidden, values printed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.entry import Entry
from tests.cli.command_calls import call, embedded
from tests.laws.entries import ACTIVE, deep

CONFIGS, STATUSES, OFFSETS = "connect-configs", "connect-status", "connect-offsets"

VIEWS: list[Sequence[str]] = [
    [],
    ["--connector", "c"],
    ["--history", "c"],
    ["--hazards"],
    ["--compare", "2.8,3.9,kip"],
]
PRINTED = (
    "[hidden]",
    "jdbc://me:[hidden]@host/x",
    "Bearer [hidden]",
    "connect-configs",
    "RESTARTING",
)
"""A text of each view, as a table and as JSON."""
FORMS: list[Sequence[str]] = [[], ["-o", "json"]]
SECRET = "hunter2"
TRACE = f"java.lang.Exception: login failed password={SECRET}\n\tat x"


def status(**fields: Any) -> bytes:
    """Value of a status record with these fields changed."""
    report = {"state": "FAILED", "trace": TRACE, "worker_id": "w", "generation": 1}
    return json.dumps(report | fields).encode()


def properties(**fields: Any) -> bytes:
    """Value of a config record with these properties."""
    return json.dumps({"properties": fields}).encode()


PLAIN = {
    "ssl.key": SECRET,
    "pass": SECRET,
    "credentials": {"user": "me", "value": SECRET},
    "headers": f"X-Api-Key: {SECRET}",
    "auth": f"Bearer {SECRET}",
    "basic": f"Basic {SECRET}",
    "url": f"jdbc://me:{SECRET}@host/x",
}
URL = f"jdbc://me:{SECRET}@host/x"

PLANTED = [
    (CONFIGS, b"connector-c", properties(**PLAIN)),
    (CONFIGS, b"connector-c", properties(**PLAIN, more=1)),
    (CONFIGS, b"task-c-0", properties(**PLAIN)),
    (CONFIGS, b"commit-c", b'{"tasks":1}'),
    (CONFIGS, b"task-c-0", properties(**PLAIN, more=1)),
    (CONFIGS, b"target-state-c", b'{"state":"password=hunter2"}'),
    (CONFIGS, b"target-state-c", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (CONFIGS, b"connector-c", b'{"properties":{"password":"hunter2"'),
    (CONFIGS, b"commit-c", b'{"password":"hunter2"}'),
    (CONFIGS, b"session-key", b'{"key":"hunter2"}'),
    (STATUSES, b"status-connector-c", status()),
    (STATUSES, b"status-connector-c", status(state=f"password={SECRET}")),
    (STATUSES, b"status-task-c-0", status()),
    (STATUSES, b"status-task-c-0", status(state="RESTARTING")),
    (OFFSETS, json.dumps(["c", {"url": URL}]).encode(), b'{"token":"hunter2"}'),
    (OFFSETS, json.dumps(["c", {"url": URL}]).encode(), json.dumps({"u": URL}).encode()),
    (OFFSETS, json.dumps(["c", {"b": 1, "url": URL}]).encode(), b'{"a":1}'),
    (OFFSETS, json.dumps(["c", {"url": [URL]}]).encode(), b'{"a":[1]}'),
    (OFFSETS, f'["c",{{"url":"{URL}"'.encode(), b"{}"),
]


def log(path: Path, records: Sequence[tuple[str, bytes, bytes | None]]) -> Path:
    """Embedded log of these records, in this order."""
    return embedded(
        path,
        [
            Entry(topic, 0, at, 1000 + at, key, value)
            for at, (topic, key, value) in enumerate(records)
        ],
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Log with a secret in every field where people put secrets."""
    return log(tmp_path_factory.mktemp("planted") / "log.db", PLANTED)


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize(("view", "expected"), [*zip(VIEWS, PRINTED, strict=True)])
def test_no_view_shows_a_secret(
    planted: Path, view: Sequence[str], expected: str, form: Sequence[str]
) -> None:
    """Each view of the connector hides all secrets."""
    result = call("inspect", planted, *view, *form)
    assert (result.code, result.err) == (0, "")
    assert SECRET not in result.out
    assert expected in result.out


def test_answers_for_people_have_no_secrets(planted: Path) -> None:
    """The table of `--rest` hides secrets; its JSON has them as Connect's answers do."""
    assert SECRET not in call("inspect", planted, "--rest").out
    assert SECRET in call("inspect", planted, "--rest", "-o", "json").out


def test_a_trace_is_shown_without_its_secret(planted: Path) -> None:
    """JSON has the traces of connector and task, with `[hidden]` in place of the password."""
    document = call("inspect", planted, "--connector", "c", "-o", "json").json
    shown = "java.lang.Exception: login failed password=[hidden]\n\tat x"
    assert document["connector_status"]["trace"] == shown
    assert document["task_list"][0]["status"]["trace"] == shown


LEVELS = 900
DEEP = [
    (CONFIGS, b"connector-c", b'{"properties":{"connector.class":%b,"a":"b"}}' % deep(LEVELS)),
    (CONFIGS, b"task-c-0", b'{"properties":{"k":%b}}' % deep(LEVELS)),
    (CONFIGS, b"commit-c", b'{"tasks":1}'),
    (CONFIGS, b"task-c-0", b'{"properties":{"k":%b}}' % deep(LEVELS - 1)),
    (CONFIGS, b"target-state-c", b'{"state":%b}' % deep(LEVELS)),
    (
        CONFIGS,
        b"connector-c",
        b'{"properties":{"k":%b,"connector.class":%b}}' % ((deep(LEVELS),) * 2),
    ),
    (STATUSES, b"status-connector-c", b'{"state":"RUNNING","worker_id":"w","generation":1}'),
    (STATUSES, b"status-connector-c", b'{"state":%b}' % deep(LEVELS)),
    (STATUSES, b"status-topic-t:connector-c", ACTIVE),
    (OFFSETS, b'["c",{"p":%b}]' % deep(LEVELS), b'{"o":1}'),
    (OFFSETS, b'["c",{"p":1}]', b'{"o":%b}' % deep(LEVELS)),
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize("view", [*VIEWS, ["--rest"]], ids=" ".join)
def test_deep_values_are_printed(tmp_path: Path, view: Sequence[str], form: Sequence[str]) -> None:
    """900 levels are printed: releases accept them, but recursion in Python ends at 1,000 calls."""
    result = call("inspect", log(tmp_path / "log.db", DEEP), *view, *form)
    assert (result.code, result.err) == (0, "")
    if "json" in form or "--rest" in view:
        assert isinstance(result.json, dict)


def test_deep_values_are_whole_for_machines(tmp_path: Path) -> None:
    """Tables abbreviate deep values; JSON has them whole."""
    where = log(tmp_path / "log.db", DEEP)
    shown = call("inspect", where, "--connector", "c").out
    assert '["…"]' in shown
    assert "[" * 100 not in shown
    assert (
        deep(LEVELS).decode()
        in call("inspect", where, "--rest", "--profile", "3.9", "-o", "json").out
    )

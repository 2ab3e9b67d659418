"""Version matrix: the effect of each record in each release, row by row.

A row has a log and the expected effect for every span of releases. A span begins with its first
release, and holds for every profile in it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind
from controlplane.core.releases.profiles import KIP, PROFILES, RELEASES, Profile
from controlplane.core.state import ClusterState
from controlplane.core.views.hazards import Danger, hazards
from tests.core.logs import config, connector, offsets, outcomes, read, report, status, tasks

LIVE = connector("a")
STATUS = "status-connector-a"
DEEP = "[" * 20_000 + "]" * 20_000

MatrixView = Callable[[ClusterState], Any]


class MatrixRow(NamedTuple):
    """A log, a view of its state, and the effect by the first release that has it."""

    name: str
    log: list[Entry]
    view: MatrixView
    effects: dict[str, Any]


def target(state: ClusterState) -> str | None:
    """Return the target state of connector `a`; None without the connector."""
    target_state = views.target(state, "a")
    return target_state and target_state.value


def reported(state: ClusterState) -> str | None:
    """Return the reported state of connector `a`; None without a report."""
    reported_status = state.status.connectors.get("a")
    return None if reported_status is None else reported_status.state.value


def task_count(state: ClusterState) -> int | None:
    """Committed task count of connector `a`."""
    return state.config.task_counts.get("a")


def target_row(name: str, value: str, effects: dict[str, str | None]) -> MatrixRow:
    """A row whose log is a connector config and then a target-state record."""
    return MatrixRow(
        name, config(LIVE, ("target-state-a", value)), target, {"0.9": None, **effects}
    )


ROWS = [
    # --- meeting a newer record -------------------------------------------------------------
    target_row(
        "STOPPED written for both",
        '{"state":"PAUSED","state.v2":"STOPPED"}',
        {"0.10.0": "PAUSED", "3.5.0": "STOPPED"},
    ),
    target_row("naive STOPPED", '{"state":"STOPPED"}', {"0.10.0": "STARTED", "3.5.0": "STOPPED"}),
    target_row(
        "unknown state, known v2", '{"state":"X?","state.v2":"STARTED"}', {"0.10.0": "STARTED"}
    ),
    target_row(
        "known state, unknown v2",
        '{"state":"PAUSED","state.v2":"FUTURE"}',
        {"0.10.0": "PAUSED", "3.5.0": "STARTED"},
    ),
    MatrixRow(
        "empty commit",
        config(LIVE, ("commit-a", '{"tasks":0}')),
        task_count,
        {"0.9": None, "0.10.0": 0},
    ),
    MatrixRow(
        "session key",
        config(("session-key", '{"key":"AQ==","algorithm":"x","creation-timestamp":1}')),
        lambda state: state.config.session_key is not None,
        {"0.9": False, "2.4.0": True},
    ),
    MatrixRow(
        "fencing record",
        config(("tasks-fencing-a", '{"task-count":2}')),
        lambda state: dict(state.config.fenced_counts),
        {"0.9": {}, "3.3.0": {"a": 2}},
    ),
    MatrixRow(
        "pending fencing",
        config(LIVE, *tasks("a", 1)),
        lambda state: "a" in state.config.pending_fencing,
        {"0.9": False, "3.3.0": True},
    ),
    MatrixRow(
        "status RESTARTING",
        status((STATUS, report("RUNNING")), (STATUS, report("RESTARTING"))),
        reported,
        {"0.9": None, "0.10.0": "RUNNING", "3.0.0": "RESTARTING"},
    ),
    MatrixRow(
        "status STOPPED",
        status((STATUS, report("RUNNING")), (STATUS, report("STOPPED"))),
        reported,
        {"0.9": None, "0.10.0": "RUNNING", "3.5.0": "STOPPED"},
    ),
    MatrixRow(
        "active topic",
        status(
            (
                "status-topic-t:connector-a",
                '{"topic":{"name":"t","connector":"a","task":0,"discoverTimestamp":1}}',
            )
        ),
        lambda state: views.active_topics(state, "a"),
        {"0.9": [], "2.5.0": ["t"]},
    ),
    MatrixRow(
        "status with a version",
        status((STATUS, '{"state":"RUNNING","worker_id":"w","generation":1,"version":"1.0"}')),
        lambda state: reported(state) and state.status.connectors["a"].version,
        {"0.9": None, "4.1.0": "1.0"},
    ),
    MatrixRow(
        "offset tombstone",
        offsets(("k", "1"), ("k", None)),
        lambda state: dict(state.offsets["connect-offsets"].values),
        {"0.9": {b"k": None}, "3.4.0": {}},
    ),
    # --- folding the same log differently ---------------------------------------------------
    MatrixRow(
        "removal keeps tasks",
        config(LIVE, *tasks("a", 1), ("connector-a", None)),
        task_count,
        {"0.9": 1, "2.5.1": None},
    ),
    MatrixRow(
        "removal keeps deferred tasks",
        config(LIVE, ("task-a-0", '{"properties":{}}'), ("connector-a", None)),
        lambda state: "a" in state.config.deferred,
        {"0.9": True, "3.4.0": False},
    ),
    MatrixRow(
        "commit without a connector",
        config(*tasks("a", 1)),
        task_count,
        {"0.9": 1, "3.7.1": None},
    ),
    MatrixRow(
        "deferred tasks are gone after a commit",
        config(LIVE, *tasks("a", 1), ("commit-a", '{"tasks":1}')),
        lambda state: sorted(state.config.inconsistent),
        {"0.9": [], "0.10.0": ["a"]},
    ),
    MatrixRow(
        "applied config",
        config(LIVE, *tasks("a", 1)),
        lambda state: "a" in state.config.applied,
        {"0.9": False, "3.7.1": True},
    ),
    MatrixRow("default target state", config(LIVE), target, {"0.9": None, "0.10.0": "STARTED"}),
    MatrixRow(
        "target tombstone of a live connector",
        config(LIVE, ("target-state-a", '{"state":"PAUSED"}'), ("target-state-a", None)),
        target,
        {"0.9": None, "0.10.0": "STARTED"},
    ),
    MatrixRow(
        "stale UNASSIGNED",
        status(
            ("status-task-a-0", report("RUNNING", 2)), ("status-task-a-0", report("UNASSIGNED"))
        ),
        lambda state: [
            task_status.state.value for task_status in state.status.tasks.get("a", {}).values()
        ],
        {"0.9": [], "0.10.0": ["UNASSIGNED"], "3.6.0": ["RUNNING"]},
    ),
    MatrixRow(
        "generations",
        config(LIVE, *tasks("a", 1)),
        lambda state: dict(state.config.generations),
        {"0.9": {}, "3.3.0": {"a": 0}},
    ),
    MatrixRow(
        "leading zeros",
        config(LIVE, *tasks("a", 1)[:1], ("commit-a", '{"tasks":01}')),
        task_count,
        {"0.9": None, "3.6.0": 1},
    ),
    MatrixRow(
        "encoded surrogates",
        config(("connector-a", b'{"properties":{"k":"\xed\xa0\x80"}}')),
        lambda state: "a" in state.config.connectors,
        {"0.9": True, "4.2.1": False},
    ),
    MatrixRow(
        "minus zero",
        config(("connector-a", '{"properties":{"k":-0.0}}')),
        lambda state: str(state.config.connectors["a"]["k"]),
        {"0.9": "-0.0", "2.4.0": "0.0"},
    ),
    MatrixRow(
        "a name of more than 50 000 bytes",
        config(("connector-a", '{"properties":{"' + "n" * 50_001 + '":"v"}}')),
        lambda state: "a" in state.config.connectors,
        {"0.9": True, "3.7.0": False},
    ),
    MatrixRow(
        "a huge exponent",
        config(("connector-a", '{"properties":{"k":1e99999999999}}')),
        lambda state: str(state.config.connectors.get("a", {}).get("k")),
        {"0.9": "inf", "4.0.2": "None"},
    ),
    MatrixRow(
        "a tiny exponent",
        config(("connector-a", '{"properties":{"k":1e-99999999999}}')),
        lambda state: str(state.config.connectors.get("a", {}).get("k")),
        {"0.9": "0.0", "2.4.0": "None", "3.7.0": "0.0", "4.0.2": "None"},
    ),
    MatrixRow(
        "an empty value removes",
        config(LIVE, ("connector-a", "")),
        lambda state: "a" not in state.config.connectors,
        {"0.9": False, "1.0.0": True, "2.2.2": False, "2.3.0": True, "2.3.1": False, "2.6.1": True},
    ),
    MatrixRow(
        "a listed partition",
        offsets(('["a",{"p":1}]', "{}"), ('["a",{"p":1} ]', None)),
        lambda state: len(state.offsets["connect-offsets"].hidden),
        {"0.9": 0, "3.5.0": 1},
    ),
]

FATES = [
    # --- tolerating what is malformed -------------------------------------------------------
    ("undecodable JSON", config(("connector-a", "{")), {"0.9": "undecodable"}),
    (
        "connector without properties",
        config(("connector-a", "{}")),
        {"0.9": "poison", "0.10.0": "ignored"},
    ),
    ("task without properties", config(("task-a-0", "{}")), {"0.9": "poison", "3.3.0": "ignored"}),
    ("task null", config(("task-a-0", None)), {"0.9": "ignored"}),
    ("count not integral", config(LIVE, ("commit-a", '{"tasks":"1"}')), {"0.9": "loses batch"}),
    (
        "nothing deferred",
        config(LIVE, ("commit-a", '{"tasks":1}')),
        {"0.9": "poison", "0.10.0": "accepted"},
    ),
    ("null key, config", config((None, "{}")), {"0.9": "poison"}),
    ("null key, status", status((None, "{}")), {"0.9": "ignored", "0.10.0": "poison"}),
    ("deep nesting", config(("connector-a", DEEP)), {"0.9": "poison", "3.7.0": "undecodable"}),
    (
        "session key field missing",
        config(("session-key", '{"key":"AQ==","algorithm":"x"}')),
        {"0.9": "ignored", "2.4.0": "poison", "3.3.0": "ignored"},
    ),
    (
        "session key not base64",
        config(("session-key", '{"key":"*","algorithm":"x","creation-timestamp":1}')),
        {"0.9": "ignored", "2.4.0": "poison"},
    ),
    (
        "session key empty",
        config(("session-key", '{"key":"","algorithm":"x","creation-timestamp":1}')),
        {"0.9": "ignored", "2.4.0": "poison"},
    ),
    (
        "fencing count not integral",
        config(("tasks-fencing-a", "{}")),
        {"0.9": "ignored", "3.3.0": "loses batch"},
    ),
    (
        "offset key not JSON",
        offsets(("{", "{}")),
        {"0.9": "accepted", "3.5.0": "loses batch", "3.5.2": "ignored", "3.6.0": "loses batch"}
        | {"3.6.1": "ignored"},
    ),
    (
        "restart request",
        config(("restart-connector-a", "{}")),
        {"0.9": "ignored", "3.0.0": "accepted"},
    ),
    (
        "logger level",
        config(("logger-cluster-x", '{"level":"INFO"}')),
        {"0.9": "ignored", "3.7.0": "accepted"},
    ),
    (
        "offset of a null partition",
        offsets(('["a",null]', "{}")),
        {"0.9": "accepted", "3.5.0": "ignored", "3.6.2": "accepted", "3.7.0": "ignored"}
        | {"3.7.1": "accepted"},
    ),
    (
        "more than 1000 digits",
        config(("connector-a", '{"properties":{"k":' + "1" * 1001 + "}}")),
        {"0.9": "accepted", "3.7.0": "undecodable"},
    ),
]

PROFILE_NAMES = [profile.release for profile in PROFILES if profile.release != KIP]


def expected(effects: dict[str, Any], release: str) -> Any:
    """The expected effect in a release: that of the last span begun by then."""
    firsts = [
        Profile.of(first).release if first in RELEASES else _first(first) for first in effects
    ]
    at = RELEASES.index(release)
    return [
        value
        for first, value in zip(firsts, effects.values(), strict=True)
        if RELEASES.index(first) <= at
    ][-1]


def _first(line: str) -> str:
    return next(release for release in RELEASES if release.startswith(f"{line}."))


def expected_everywhere(effects: dict[str, Any]) -> dict[str, Any]:
    """The expected effect in each release."""
    return {release: expected(effects, release) for release in PROFILE_NAMES}


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_each_release_has_its_effect(row: MatrixRow) -> None:
    """A worker of each release ends in the expected state."""
    states = {release: row.view(read(row.log, release)) for release in PROFILE_NAMES}
    assert states == expected_everywhere(row.effects)


@pytest.mark.parametrize(("log", "fates"), [fate[1:] for fate in FATES], ids=[f[0] for f in FATES])
def test_each_release_has_its_fate(log: list[Entry], fates: dict[str, str]) -> None:
    """The last record has the expected fate in each release."""
    last = {release: outcomes(log, release)[-1].kind.value for release in PROFILE_NAMES}
    assert last == expected_everywhere(fates)


NEGATIVE = config(LIVE, ("commit-a", '{"tasks":-1}'))


@pytest.mark.parametrize(("release", "fails"), [("2.5.1", False), ("2.6.0", True), ("4.3", True)])
def test_negative_task_counts_are_failures_from_2_6_on(release: str, *, fails: bool) -> None:
    """A negative count gives an empty list up to 2.5, and an exception from 2.6.0 on."""
    state = read(NEGATIVE, release)
    if fails:
        with pytest.raises(views.ReadFailed, match="Illegal Capacity: -1"):
            views.task_ids(state, "a")
    else:
        assert list(views.task_ids(state, "a")) == []


TARGET = ("target-state-a", '{"state":"PAUSED"}')


@pytest.mark.parametrize(
    ("release", "log", "names"),
    [
        (
            "2.3.0",
            config(LIVE, connector("b"), *tasks("b", 1), *tasks("a", 1)),
            {("b", 0), ("a", 0)},
        ),
        ("2.3.1", config(LIVE, connector("b"), *tasks("b", 1), *tasks("a", 1)), {("a", 0)}),
    ],
)
def test_tasks_are_announced_as_in_the_matrix(
    release: str, log: list[Entry], names: set[tuple[str, int]]
) -> None:
    """Up to 2.3.0 all known task ids are announced, later only those of the commit."""
    assert outcomes(log, release, live=True)[-1].calls[0].subject == names


@pytest.mark.parametrize(("release", "calls"), [("3.4.1", 2), ("3.5.0", 1), ("3.7.0", 1)])
def test_target_states_are_announced_as_in_the_matrix(release: str, calls: int) -> None:
    """Up to 3.4 every target state is announced, from 3.5.0 on only a change."""
    record_fates = outcomes(config(LIVE, TARGET, TARGET), release, live=True)
    assert sum(len(outcome.calls) for outcome in record_fates[1:]) == calls


@pytest.mark.parametrize(("release", "calls"), [("3.6.2", 1), ("3.7.0", 0)])
def test_target_states_of_unknown_connectors_are_announced_up_to_3_6(
    release: str, calls: int
) -> None:
    """Up to 3.6 target states of unknown connectors are announced, too."""
    assert len(outcomes(config(TARGET), release, live=True)[0].calls) == calls


EVENTS = {
    "restart-connector-a": ('{"include-tasks":true}', "3.0.0"),
    "logger-cluster-x": ('{"level":"INFO"}', "3.7.0"),
}


@pytest.mark.parametrize("key", EVENTS)
def test_live_events_call_the_listener(key: str) -> None:
    """Restart requests and logger levels call the listener from their first release on."""
    value, first = EVENTS[key]
    log = config((key, value))
    are_called = {
        release: bool(outcomes(log, release, live=True)[0].calls) for release in PROFILE_NAMES
    }
    assert are_called == expected_everywhere({"0.9": False, first: True})


def test_poison_ends_the_log_thread_before_3_9() -> None:
    """A poison record ends the log thread of a running worker, from 3.9 on only the batch."""
    log = config(LIVE, (None, "{}"), connector("b"))
    by_release = {release: hazards(log, Profile.of(release)) for release in PROFILE_NAMES}
    dangers = {
        release: [(hazard.danger, hazard.reason.rpartition("a running one ")[2]) for hazard in each]
        for release, each in by_release.items()
    }
    before, since = (
        [(Danger.STOPS_WORKER, fate)]
        for fate in ("reads no more records", "loses the rest of its batch")
    )
    assert dangers == expected_everywhere({"0.9": before, "3.9.0": since})


def test_fates_are_known() -> None:
    """The table spells the kinds of fates like the program."""
    assert {kind for _, _, fates in FATES for kind in fates.values()} <= {
        kind.value for kind in FateKind
    }

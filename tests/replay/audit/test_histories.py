"""Audits of recorded clusters: a pinned list of findings, and the users of changes."""

import json
import re

import pytest

from controlplane.core.entry import Position
from controlplane.core.order import before
from controlplane.scenario.story import StoryStep, read_story
from replay.audit import audit
from replay.audit.thresholds import Thresholds
from replay.audit.trail.line_formats import read_trail
from replay.audit.trail.request_trail import RequestTrail
from replay.findings import Finding, Severity
from tests.recorded_requests import HISTORIES
from tests.replay.audit.histories import PINNED, lines, names, recorded_cluster

CHANGES = ("connector-created", "connector-deleted", "config-changed", "target-changed")
STORIES = [name for name in names() if (HISTORIES / f"{name}.story.jsonl").exists()]


@pytest.mark.parametrize("history", names())
def test_findings_equal_the_reviewed_list(history: str) -> None:
    """The findings equal the pinned list; review each line that changes.

    `test_users_of_changes` also checks changes of configs and target states against the stories.
    """
    pinned_lines = [line for line in PINNED.read_text(encoding="utf-8").splitlines() if line]
    begins = [at for at, line in enumerate(pinned_lines) if line.startswith(f"{history} ")]
    pinned = [line for at in begins for line in pinned_lines[at : at + 2]]
    assert list(lines(audit([recorded_cluster(history)]))) == pinned


def test_a_fleet_has_the_findings_of_its_clusters() -> None:
    """A fleet has the findings of each cluster, and one about the log that it contains twice."""
    clusters = [recorded_cluster(name) for name in names()]
    findings = audit(clusters)
    pinned_lines = PINNED.read_text(encoding="utf-8").splitlines()
    alone = [finding for finding in findings if finding.kind != "two-clusters-one-topic"]
    assert sorted(line for line in lines(alone)) == sorted(line for line in pinned_lines if line)
    (shared,) = (
        finding for finding in findings if finding.connector is None and finding not in alone
    )
    assert shared.severity is Severity.DANGER
    assert "compacted-3.9 and compacted-3.9.before" in shared.sentence


@pytest.mark.parametrize("history", STORIES)
def test_users_of_changes(history: str) -> None:
    """Each change names the request that caused it, with the story as the audit stream.

    If a request was repeated for a connector within seconds, both are named, the nearest first.
    Some changes have no request, because another program wrote them.
    """
    steps = read_story(HISTORIES / f"{history}.story.jsonl")
    requests = [step for step in steps if step.kind == "request"]
    trail = read_trail(_line(step) for step in requests)
    assert not trail.problems
    findings = audit([recorded_cluster(history)._replace(trail=RequestTrail(trail.requests))])
    changes = [finding for finding in findings if finding.kind in CHANGES]
    assert changes
    for finding in changes:
        causes = [step for step in requests if _wrote(step, finding.evidence[0])]
        named = re.findall(r"step \d+", finding.sentence)
        assert named[:1] == [f"step {step.n}" for step in causes], finding


def _wrote(step: StoryStep, place: Position) -> bool:
    ends = (ends.get(place.topic, []) for ends in (step.before, step.positions))
    first, last = (offsets[place.partition] if offsets else 0 for offsets in ends)
    return first <= place.offset < last


def _line(step: StoryStep) -> str:
    return json.dumps(
        {
            "time": step.at_ms,
            "principal": f"step {step.n}",
            "method": step.method,
            "path": step.path,
            "body": step.body,
            "status": step.status,
        }
    )


def test_exactly_once_workers_see_no_aborted_records() -> None:
    """Exactly-once workers see one of two regressions; the other one was aborted."""
    cluster = recorded_cluster("aborted-3.9")
    for exactly_once, offsets in ((False, [5, 7]), (True, [5])):
        findings = audit([cluster._replace(exactly_once=exactly_once)])
        (back,) = (finding for finding in findings if finding.kind == "offsets-regressed")
        assert [place.offset for place in back.evidence] == offsets


def test_a_connector_without_running_tasks_is_found() -> None:
    """An audit finds a connector without running tasks after another program stopped it.

    The program did not empty the task set; the connector was resumed later. `pages` of
    `odd-records-3.9` is then RUNNING with both tasks UNASSIGNED, until a worker of 3.4 starts.
    """
    cluster = recorded_cluster("odd-records-3.9")
    steps = read_story(HISTORIES / "odd-records-3.9.story.jsonl")
    (resumed,) = (step for step in steps if step.path == "/connectors/pages/resume")
    entries = list(before(cluster.entries, resumed.positions))
    findings = audit([cluster._replace(entries=entries)], Thresholds(rebalance_ms=0))
    (idle,) = (finding for finding in findings if finding.kind == "tasks-not-running")
    assert (idle.connector, idle.severity) == ("pages", Severity.WARNING)
    assert "no worker runs any of its 2 tasks" in idle.sentence


def test_no_part_of_a_session_key_is_shown() -> None:
    """No finding repeats a session key, although every config topic has some."""
    clusters = [recorded_cluster(name) for name in names()]
    keys = [
        json.loads(entry.value)["key"]
        for cluster in clusters
        for entry in cluster.entries
        if entry.key == b"session-key" and entry.value
    ]
    text = " ".join(_text(finding) for finding in audit(clusters))
    assert keys
    assert not any(key in text for key in keys)


def _text(finding: Finding) -> str:
    return f"{finding.sentence} {finding.advice}"

"""Reviewed audit findings of the recorded clusters, as lines of text."""

from collections.abc import Iterator
from pathlib import Path

from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.logs.dumps import read_dump
from replay.audit import ClusterLog, audit
from replay.findings import Finding
from tests.recorded_requests import EXACTLY_ONCE, HISTORIES

PINNED = Path(__file__).parent / "histories.txt"


def recorded_cluster(history: str) -> ClusterLog:
    """Recorded log, read as the release of its first workers."""
    dump = read_dump(HISTORIES / f"{history}.log.jsonl")
    profile = Profile.of(dump.about["releases"][0])
    entries, exactly_once = in_order(dump.entries), history in EXACTLY_ONCE
    return ClusterLog(history, entries, profile, exactly_once=exactly_once)


def names() -> list[str]:
    """Names of all recorded histories."""
    return sorted(path.name.removesuffix(".log.jsonl") for path in HISTORIES.glob("*.log.jsonl"))


def lines(findings: list[Finding]) -> Iterator[str]:
    """Two lines per finding: `life-3.9 info config-changed pages [config@12]` and its sentence."""
    for finding in findings:
        where = " ".join(place(position, Topics()) for position in finding.evidence)
        about = (
            f"{finding.cluster} {finding.severity.value} {finding.kind} {finding.connector or '–'}"
        )
        yield f"{about} [{where}]"
        yield f"    {finding.sentence}"


def everything() -> str:
    """Lines of all clusters, one cluster after the other."""
    return "\n".join(
        "".join(f"{line}\n" for line in lines(audit([recorded_cluster(name)]))) for name in names()
    )


if __name__ == "__main__":  # `python -m tests.replay.audit.histories`, then review what changed
    PINNED.write_text(everything(), encoding="utf-8")

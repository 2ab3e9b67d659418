"""Commands find every planted audit finding and situation in an archive."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.entry import Entry
from controlplane.core.text.record_text import place
from replay.audit import audit
from tests.replay.archive.archives import capture, log_of
from tests.replay.audit.planted_log import TOPICS, AuditCase
from tests.replay.audit.test_planted_findings import CASES
from tests.replay.cli.replay_calls import call
from tests.replay.compat.pairs import PAIRS, SituationPair, observed_situations

pytestmark = pytest.mark.slow


def archived(folder: Path, name: str, entries: Sequence[Entry]) -> None:
    """Add a planted log to an archive, as a cluster."""
    capture(folder, log_of(entries), name=name)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_audits_of_archive_and_log_agree(case: AuditCase, tmp_path: Path) -> None:
    """The findings of archive and log are equal, word for word; the worst sets the exit code."""
    for cluster in case.clusters():
        archived(tmp_path, cluster.name, list(cluster.entries))
    expected = [finding for finding in audit(case.clusters()) if finding.kind == case.kind]
    result = call("audit", tmp_path, "--release", "3.9.1", "--kind", case.kind, "-o", "json")
    reported = result.json["findings"]
    assert [finding["sentence"] for finding in reported] == [
        finding.sentence for finding in expected
    ]
    assert [(finding["connector"], finding["severity"]) for finding in reported] == [
        (finding.connector, finding.severity.value) for finding in expected
    ]
    assert [finding["evidence"] for finding in reported] == [
        [
            f"{cluster} {place(position, TOPICS)}" if finding.clusters else place(position, TOPICS)
            for cluster, position in finding.places
        ]
        for finding in expected
    ]
    assert result.code == any(finding.severity.value != "info" for finding in expected)
    assert bool(reported) is (case.severity is not None)


def situations(folder: Path, pair: SituationPair, number: int) -> list[dict[str, Any]]:
    """Sightings of a situation in an archive."""
    mode = ("--mode", pair.mode.value) if pair.mode else ()
    result = call("compat", folder, "--from", pair.start, "--to", pair.goal, *mode, "-o", "json")
    connectors = (connector for roll in result.json["rolls"] for connector in roll["connectors"])
    sightings = (
        situation | {"connector": each["connector"]}
        for each in connectors
        for situation in each["situations"]
    )
    return [sighting for sighting in sightings if sighting["situation"] == number]


@pytest.mark.parametrize("number", PAIRS)
def test_situations_are_seen_in_an_archive(number: int, tmp_path: Path) -> None:
    """A situation is reported once for its own log, and not for the similar log."""
    pair = PAIRS[number]
    for name, log in (("planted", pair.planted), ("alike", pair.alike)):
        archived(tmp_path / name, "lab", log.entries)
    (row,) = situations(tmp_path / "planted", pair, number)
    (sighted,) = (observed.sighting for observed in observed_situations(pair, pair.planted, number))
    assert (row["connector"], row["severity"]) == (pair.connector, pair.severity.value)
    assert row["sentence"] == sighted.sentence
    assert row["evidence"] == [place(position, TOPICS) for position in sighted.evidence]
    assert not situations(tmp_path / "alike", pair, number)

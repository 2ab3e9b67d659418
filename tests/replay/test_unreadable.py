"""Unreadable records: all are counted, some are listed."""

from pathlib import Path

import pytest

from controlplane.core.releases.profiles import Profile
from replay.archive.segments.segment_files import SegmentSizes
from replay.engine.local_engine import LocalOptions
from tests.replay import garbage
from tests.replay.archive.archives import (
    NAME,
    archive,
    capture,
    cluster_in,
    log_of,
    replayed,
    served,
)
from tests.replay.cli.replay_calls import call

pytestmark = pytest.mark.slow

COUNTS = {
    "connect-configs": garbage.CONFIGS,
    "connect-status": garbage.STATUSES,
    "connect-commands": garbage.COMMANDS,
}

SIZES = SegmentSizes(400, 100)
"""A few segments per topic; a hundred small ones would take most of the time."""

RELEASES = [Profile.of(release) for release in ("2.8", "3.4", "kip")]


def test_counts_are_those_of_the_service(tmp_path: Path) -> None:
    """Counts include unlisted records; segments and snapshots give equal counts."""
    log = garbage.garbage()
    capture(tmp_path, log_of(log[: len(log) // 3]), sizes=SIZES)
    capture(tmp_path, log_of(log), sizes=SIZES)
    cluster = cluster_in(tmp_path)
    assert list(cluster.snapshots)
    expected = served(log_of(log), None, RELEASES)
    for derived in (True, False):
        assert replayed(cluster, None, RELEASES, LocalOptions(derived=derived)) == expected
    assert dict(expected[-1].unreadable_counts) == COUNTS


def test_statuses_count_until_a_good_one_comes(tmp_path: Path) -> None:
    """An unreadable status counts until a readable one replaces it, as in the service."""
    log = [entry for entry in garbage.garbage() if entry.topic == "connect-status"]
    log = log[: garbage.OVERTAKEN + 3]
    cluster, kip = archive(tmp_path, log), [Profile.of("kip")]
    counts = []
    for last in (0, garbage.OVERTAKEN - 1, garbage.OVERTAKEN, garbage.OVERTAKEN + 2):
        (state,) = replayed(cluster, f"status@{last}", kip)
        assert [state] == served(log_of(log), f"status@{last}", kip)
        counts.append(state.unreadable_counts.get("connect-status", 0))
    assert counts == [1, garbage.OVERTAKEN, 0, 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the garbage log."""
    folder_path = tmp_path_factory.mktemp("garbage")
    archive(folder_path, garbage.garbage(), SIZES)
    return folder_path


def test_the_first_unreadable_records_are_listed(folder: Path) -> None:
    """All are counted; JSON lists more than tables, and neither shows secrets."""
    result = call("state", folder, "-o", "json")
    assert result.code == 0
    (state,) = result.json[0]["states"]
    unreadable = state["unreadable"]
    assert (unreadable["count"], len(unreadable["records"])) == (sum(COUNTS.values()), 100)
    assert unreadable["records"][0]["position"] == {
        "topic": "connect-commands",
        "partition": 0,
        "offset": 0,
    }
    (connector,) = [row for row in state["connectors"] if row["connector"] == "a"]
    assert connector["offsets"] == []
    assert connector["remarks"][-1].startswith("1 unusable source offset: ")
    shown = call("state", folder)
    assert f"{NAME}: {sum(COUNTS.values())} records that a worker of kip cannot use:" in shown.out
    assert f"  … and {sum(COUNTS.values()) - 5} more" in shown.out
    assert "hunter2" not in result.out + shown.out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("timeline", "--offsets", "--profile", "all"), 0),
        (("timeline", "--digests"), 0),
        pytest.param(("diff", "--from", "config@1"), 1, marks=pytest.mark.prove),
        (("history", "--connector", "a", "--profile", "2.8"), 0),
        (("audit", "--release", "3.4"), 0),
        (("compat", "--from", "3.9", "--to", "2.8"), 0),
        pytest.param(("lint", "--release", "3.4"), 0, marks=pytest.mark.prove),
        pytest.param(("verify",), 0, marks=pytest.mark.prove),
    ],
)
def test_every_command_accepts_unreadable_records(
    folder: Path, words: tuple[str, ...], code: int
) -> None:
    """Every command prints JSON for a cluster with unreadable records, with the usual exit code."""
    command, *rest = words
    result = call(command, folder, *rest, "-o", "json")
    assert result.code == code
    assert result.json

"""`replay lint`: options that it refuses."""

from pathlib import Path

import pytest

from tests.replay.cli.replay_calls import call, refusal
from tests.replay.fleet.fleets import CLUSTERS, empty_files, fleet_in


@pytest.fixture(scope="module")
def unreadable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of a recorded cluster whose files are empty."""
    folder = fleet_in(tmp_path_factory.mktemp("fleet"), {"roll": CLUSTERS["roll"]})
    empty_files(folder)
    return folder


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "Missing option '--release'. A restart depends on the release of the workers"),
        (("--release", "0.8"), "unknown release '0.8'"),
        (("--release", "2.0", "--exactly-once"), "2.0.1 has no exactly-once support"),
        (("--release", "3.9", "--fail"), "--connector and --fail need --hazards"),
        (("--release", "3.9", "--connector", "a"), "--connector and --fail need --hazards"),
        (("--release", "3.9", "--config-topic", "x"), "an archive knows the names of its topics"),
        (("--release", "3.9", "--cluster", "none"), "no cluster none is archived there"),
    ],
)
def test_wrong_options_are_refused(
    options: tuple[str, ...], sentence: str, unreadable: Path
) -> None:
    """Wrong options are refused before any file of the archive is read."""
    assert sentence not in refusal(call("lint", unreadable, "--release", "3.9"))
    result = call("lint", unreadable, *options)
    assert (result.code, sentence in result.err) == (2, True), result

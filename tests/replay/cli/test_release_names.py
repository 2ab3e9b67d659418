"""Names of releases in options that take one release each."""

from pathlib import Path

import pytest

from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, refusal

LIFE = HISTORIES / "life-3.9.log.jsonl"


@pytest.mark.parametrize(
    "words",
    [
        ("lint", "--release", "all"),
        ("audit", "--release", "all"),
        ("watch", "--once", "--release", "all"),
        ("report", "--file", "page.html", "--release", "all"),
        ("report", "--file", "page.html", "--towards", "all"),
        ("compat", "--from", "all", "--to", "3.9"),
        ("compat", "--from", "3.9", "--to", "all"),
    ],
)
def test_all_is_no_single_release(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`all`, which `state` accepts, is not called an unknown release."""
    monkeypatch.chdir(tmp_path)
    command, *options = words
    assert refusal(call(command, LIFE, *options)) == (
        "one release is needed here, not 'all': name one such as 3.9, or kip"
    )
    assert not [*tmp_path.iterdir()]


def test_hazards_are_those_of_all_releases() -> None:
    """The default of `lint --hazards` can be named."""
    odd = HISTORIES / "odd-records-3.9.log.jsonl"
    named = call("lint", odd, "--hazards", "--release", "all")
    assert named.code == 0
    assert named == call("lint", odd, "--hazards")

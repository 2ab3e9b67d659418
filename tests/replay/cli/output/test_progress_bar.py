"""Long commands show their progress at a terminal, and nowhere else."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import sampled
from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call
from tests.replay.cli.terminal import ENVIRONMENT, TerminalResult, at_a_terminal

pytestmark = pytest.mark.slow

LOG = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"


class BarCase(NamedTuple):
    """Command, and the label of its progress bar."""

    command: str
    options: tuple[object, ...]
    says: str


CASES = [
    BarCase("verify", (), "verifying"),
    BarCase("state", (), "reading"),
    BarCase("timeline", (), "reading"),
    BarCase("timeline", ("--digests",), "reading"),
    BarCase("diff", ("--from", "config@9"), "reading"),
    BarCase("history", ("--connector", "pages"), "reading"),
    BarCase("audit", (), "auditing"),
    BarCase("audit", ("--jobs", "2"), "auditing"),
    BarCase("compat", ("--from", "3.9", "--to", "3.4"), "assessing"),
    BarCase("lint", ("--release", "3.4"), "linting"),
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the clusters `one` and `two`."""
    folder = tmp_path_factory.mktemp("archive")
    assert call("capture", f"one={LOG}", f"two={LOG}", folder).code == 0
    return folder


@pytest.fixture(autouse=True)
def _usual(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def assert_drawn_to_the_end(result: TerminalResult) -> None:
    """Check that a bar was drawn, and that its last count was the total."""
    *_, (done, total) = re.findall(
        r"━ +(\d+)/(\d+)", re.sub(r"\x1b\[[\d;?]*\w", "", result.terminal)
    )
    assert int(done) == int(total) > 0


@pytest.mark.parametrize(
    "case", sampled(CASES, *CASES[1::2]), ids=lambda case: f"{case.command}{case.options}"
)
def test_a_terminal_shows_progress(archive: Path, case: BarCase) -> None:
    """Progress appears on standard error; a pipe gets the same answer and no bar."""
    words = (case.command, archive, *case.options, "-o", "json")
    quiet, result = call(*words), at_a_terminal(*words)
    assert case.says in result.terminal
    assert_drawn_to_the_end(result)
    assert (quiet.code, quiet.err) == (result.code, "")
    assert quiet.json == json.loads(result.out)


def test_a_capture_shows_each_topic(tmp_path: Path) -> None:
    """The bar shows one topic after the other."""
    result = at_a_terminal("capture", f"one={LOG}", tmp_path / "a", "-o", "json")
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        assert topic in result.terminal
    assert_drawn_to_the_end(result)
    quiet = call("capture", f"one={LOG}", tmp_path / "a", "-o", "json")
    assert (quiet.code, quiet.err, result.code) == (0, "", 0)
    assert quiet.json[0]["ends"] == json.loads(result.out)[0]["ends"]


def test_a_report_shows_progress(archive: Path, tmp_path: Path) -> None:
    """The bar of a report counts clusters."""
    words = ("report", archive, "--to", tmp_path / "page.html", "--towards", "3.4")
    quiet, result = call(*words), at_a_terminal(*words)
    assert "collecting" in result.terminal
    assert_drawn_to_the_end(result)
    assert (quiet.code, quiet.err, result.code) == (0, "", 0)
    assert " ".join(quiet.out.split()) == " ".join(result.out.split())


def test_errors_stay_below_the_bar(archive: Path) -> None:
    """The error is one line below the bar."""
    result = at_a_terminal("history", archive, "--connector", "none")
    assert result.code == 2
    assert result.terminal.splitlines()[-1].endswith(
        "Error: the answer has no connector 'none': check the name"
    )

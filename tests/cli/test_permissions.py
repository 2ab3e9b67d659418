"""Inaccessible files and directories: both programs print the same sentence, exit code 2."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command_calls import CommandResult, call, unprivileged
from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call as replay
from tests.replay.cli.replay_calls import refusal

ADVICE = "(Permission denied): check the access rights of the file and its directory"


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Folder that another user may enter."""
    return open_path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Log, file and directory of mode 000, a read-only directory, and `free`.

    `free` holds the same names with normal modes.
    """
    for place in (tmp_path, tmp_path / "free"):
        for name in ("locked", "read-only"):
            (place / name).mkdir(parents=True)
        shutil.copy(HISTORIES / "life-3.9.log.jsonl", place / "log")
        (place / "read-only" / "a.scenario").write_text("cluster w1@3.9\n----\nno\n")
        (place / "closed").write_text("x")
    (tmp_path / "read-only").chmod(0o555)
    for name in ("closed", "locked"):
        (tmp_path / name).chmod(0)
    yield tmp_path
    (tmp_path / "locked").chmod(0o755)


READ = (
    (("audit", "/log", "--trail", "/closed"), "closed"),
    (("audit", "/log", "--trail", "/locked/trail"), "locked/trail"),
    (("audit", "/locked"), "locked"),
    (("audit", "/locked/log"), "locked/log"),
    (("state", "/locked"), "locked"),
    (("verify", "/locked"), "locked"),
)
WRITTEN = (
    (("report", "/log", "--file", "/read-only/page"), "read-only/page"),
    (("report", "/log", "--file", "/locked/page"), "locked/page"),
    (("capture", "a=/log", "/read-only/fleet", "--once"), "read-only/fleet"),
)


@pytest.mark.parametrize(
    ("words", "named", "done"),
    [(*case, "read") for case in READ] + [(*case, "written") for case in WRITTEN],
)
def test_replay_names_inaccessible_files(
    folder: Path, words: tuple[str, ...], named: str, done: str
) -> None:
    """The sentence is the same for a trail, an archive, a log and a page."""
    message = refusal(refused(replay, folder, words))
    assert message == f"{folder / named} cannot be {done} {ADVICE}"


BUNDLE = ("bundle", "export", "orders", "--cluster", "/log", "-f", "/read-only/bundle")
REWRITE = ("scenario", "run", "--rewrite", "/read-only/a.scenario")


@pytest.mark.parametrize(
    ("words", "named", "done"),
    [
        (("inspect", "/closed"), "closed", "read"),
        (("get", "--token", "@/closed"), "closed", "read"),
        (("plan", "/log", "PUT", "/connectors/a/config", "@/closed"), "closed", "read"),
        (BUNDLE, "read-only/bundle", "written"),
        (REWRITE, "read-only/a.scenario", "written"),
    ],
)
def test_controlplane_names_inaccessible_files(
    folder: Path, words: tuple[str, ...], named: str, done: str
) -> None:
    """The error says whether reading or writing failed."""
    result = refused(call, folder, words)
    assert result.code == 2
    assert (
        result.err.strip().splitlines()[-1] == f"Error: {folder / named} cannot be {done} {ADVICE}"
    )


def refused(
    run: Callable[..., CommandResult], folder: Path, words: tuple[str, ...]
) -> CommandResult:
    """Run a command as a user without rights. `/log` is a path in the folder.

    The command runs in `free` first, because that user may not read late imports of Python.
    """
    run(*_in(folder / "free", words))
    with unprivileged():
        return run(*_in(folder, words))


def _in(folder: Path, words: tuple[str, ...]) -> list[str]:
    return [
        f"{before}{folder / path}" if slash and not path.startswith("connectors") else word
        for word in words
        for before, slash, path in [word.partition("/")]
    ]

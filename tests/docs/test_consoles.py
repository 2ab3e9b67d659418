"""Console and Python blocks of the documents print the shown output."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.cli.main import COMMANDS
from replay.cli.main import COMMANDS as REPLAY_COMMANDS
from tests.command_server import command_server, modules_of, write_clients
from tests.docs.consoles import ROOT, ConsoleStep, Shell, steps

pytestmark = pytest.mark.slow

DOCUMENTS = (
    *("archives", "cli", "connectors", "embed", "inspect", "operate", "replay", "rest", "schemas"),
    "testing",
    *("tour", "upgrade"),
    pytest.param("replay-data", marks=pytest.mark.java),
)

LIBRARIES = ("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet")
"""Libraries that commands import late; the server imports them in advance.

duckdb is left out, because a forked process that has it complains at its end.
"""

WRITTEN_FILE = r"(?:(?<![\w./-])|///)([\w.-]+\.(?:db|log|txt|html))(?![\w.])"
"""Pattern of a file in the working directory, or of an embedded log."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the commands that documents call."""
    folder = tmp_path_factory.mktemp("commands")
    write_clients(folder)
    with command_server(folder, (*modules_of(COMMANDS), *modules_of(REPLAY_COMMANDS), *LIBRARIES)):
        yield folder


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_true(name: str, commands: Path, tmp_path: Path) -> None:
    """Every command has the shown exit code and output."""
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    with Shell(tmp_path, commands, clone="\n$ make " in text) as shell:
        for step in steps(text):
            code, output = shell.run(step)
            shown = f"$ {step.command}\n{output}(exit code {code})"
            assert (code, step.prints(output)) == (step.code, True), shown


def test_the_readme_is_true_in_a_fresh_clone(tmp_path: Path) -> None:
    """The README's commands work in order from `make run` on, in a fresh clone."""
    with Shell(tmp_path, None, clone=True) as shell:
        for step in steps((ROOT / "README.md").read_text("utf-8")):
            code, output = shell.run(step)
            shown = f"$ {step.command}\n{output}(exit code {code})"
            assert (code, step.prints(output)) == (step.code, True), shown


def test_the_tour_shares_no_files_with_the_pages_that_follow_it() -> None:
    """A reader may run these pages in one folder: each writes files of its own."""
    earlier_files: set[str] = set()
    for name in ("tour", "inspect", "connectors"):
        text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
        commands = "\n".join(step.command for step in steps(text))
        files = set(re.findall(WRITTEN_FILE, commands))
        assert not earlier_files & files
        earlier_files |= files


def test_shown_output_is_compared() -> None:
    """A wrong output in a document fails the comparison."""
    text = "```console\n$ a \\\n  b  # exit code 3\nx … z\n…\nlast\n$ c\n```\n"
    first, second = steps(text)
    assert (first.command, first.code) == ("a \\\n  b  # exit code 3", 3)
    assert first.prints("x y z\nlast\n")
    assert first.prints("x y z\n1\n2\nlast\n")
    assert not first.prints("x y\nlast\n")
    assert not first.prints("x y z\n")
    assert second == ConsoleStep("c", "")

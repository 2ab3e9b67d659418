"""`controlplane scenario run`: exit codes, JSON, rewrites, installed folds."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli.scenario_command import scenario

GOOD = "# Good.\n\ncluster w1@3.9\n----\nok\n"
OTHER = "# Other.\n\ncluster w1@3.9\n----\nno\n"


def run(*arguments: str | Path) -> Result:
    """Exit code and output of the command."""
    return CliRunner().invoke(scenario, ["run", *map(str, arguments)])


def write(folder: Path, name: str, text: str) -> Path:
    """Write a scenario to a file and return its path."""
    path = folder / f"{name}.scenario"
    path.write_bytes(text.encode())
    return path


def git(folder: Path, *arguments: str) -> str:
    """Run Git in a folder and return its output."""
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_folder_plays_all_its_scenarios(tmp_path: Path) -> None:
    """A folder argument plays all scenarios below it."""
    write(tmp_path, "a", GOOD)
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "b", GOOD)
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "2 scenarios, 2 steps: all as written\n")


def test_differences_are_printed_and_counted(tmp_path: Path) -> None:
    """Differences are printed and counted, and set the exit code."""
    path = write(tmp_path, "a", OTHER)
    result = run(path)
    assert result.exit_code == 1
    assert result.stdout == (
        f"{path}:3: cluster w1@3.9\n    -no\n    +ok\n\n"
        "if every change is wanted, run `controlplane scenario run --rewrite`, "
        "then read `git diff`\n"
        "1 scenario, 1 step: 1 differs\n"
    )


def test_json_has_every_step(tmp_path: Path) -> None:
    """JSON has every step of every file; the exit code is that of the table."""
    path = write(tmp_path, "a", OTHER)
    result = run("-o", "json", path)
    assert result.exit_code == 1
    step = {
        "line": 3,
        "step": "cluster w1@3.9",
        "as_written": False,
        "folds_agree": True,
        "expected": ["no"],
        "printed": ["ok"],
    }
    assert json.loads(result.stdout) == [{"file": str(path), "title": "Other.", "steps": [step]}]


def test_bad_input_gives_one_sentence(tmp_path: Path) -> None:
    """Bad input gives one sentence, exit code 2 and no rewrite of any file."""
    bad = write(tmp_path, "z", "view x\n")
    huge = write(tmp_path, "huge", "#" * 1_000_001)
    latin = tmp_path / "latin.scenario"
    latin.write_bytes(b"# \xe9\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    none = tmp_path / "none"
    endless = Path("/dev/zero")
    sentences = {
        bad: f"{bad}:1: `view` has no ----: put it on a line after the step",
        huge: f"{huge}: larger than 1,000,000 bytes: give a .scenario file",
        endless: f"{endless}: larger than 1,000,000 bytes: give a .scenario file",
        latin: f"{latin}: not UTF-8 at byte 2: give a .scenario file",
        empty: f"{empty}: this folder has no *.scenario file: name another",
        none: f"{none} cannot be read (No such file or directory): check the path",
    }
    for path, sentence in sentences.items():
        result = run(path)
        assert (result.exit_code, result.stderr) == (2, f"Error: {sentence}\n")
    good = write(tmp_path, "a", OTHER)
    assert run("--rewrite", good, bad).exit_code == 2
    assert good.read_text() == OTHER


def test_a_rewrite_changes_expected_outputs_alone(tmp_path: Path) -> None:
    """A rewrite changes the expected outputs alone; a second run changes nothing."""
    path = write(tmp_path, "a", OTHER.replace("\n", "\r\n"))
    result = run("--rewrite", path)
    assert (result.exit_code, result.stdout) == (0, "1 scenario, 1 step: 1 rewritten\n")
    assert path.read_bytes().decode() == OTHER.replace("no\n", "ok\n").replace("\n", "\r\n")
    assert run("--rewrite", path).stdout == "1 scenario, 1 step: all as written\n"


def test_a_rewrite_needs_a_clean_work_tree(tmp_path: Path) -> None:
    """A rewrite refuses new, changed and staged files, so that `git diff` shows its changes."""
    git(tmp_path, "init", "-q")
    path = write(tmp_path, "a", OTHER)
    clean = write(tmp_path, "clean", GOOD)
    for attempt in ("new", "changed"):
        write(tmp_path, "a", f"# {attempt}\n{OTHER}")
        result = run("--rewrite", path, clean)
        assert result.exit_code == 2
        assert "commit, or `git add`, first" in result.stderr
        assert path.read_text() == f"# {attempt}\n{OTHER}"
        git(tmp_path, "add", path.name, clean.name)
        git(tmp_path, "commit", "-q", "-m", attempt)
    write(tmp_path, "a", OTHER)
    git(tmp_path, "add", path.name)
    assert run("--rewrite", path).exit_code == 0
    changed = [line for line in git(tmp_path, "diff").splitlines() if line[:1] in "+-"]
    assert changed[2:] == ["-no", "+ok"]


@pytest.mark.parametrize("name", [":a", "link"])
def test_a_rewrite_finds_changes_under_odd_names(tmp_path: Path, name: str) -> None:
    """A name is no pattern of Git, and a link stands for its file."""
    git(tmp_path, "init", "-q")
    clean = write(tmp_path, "a1", GOOD)
    path = write(tmp_path, name, GOOD)
    if name == "link":
        path.unlink()
        path.symlink_to(clean.name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "clean")
    path.write_text(OTHER)
    assert run("--rewrite", path).exit_code == 2
    assert path.read_text() == OTHER


def test_a_failed_rewrite_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """A rewrite keeps the mode of a file, and a full disk truncates no file."""
    path = write(tmp_path, "a", OTHER)
    path.chmod(0o664)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        assert isinstance(run("--rewrite", path).exception, OSError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == OTHER
    assert run("--rewrite", path).exit_code == 0
    assert (path.read_text(), path.stat().st_mode & 0o777) == (OTHER.replace("no", "ok"), 0o664)
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_without_steps_is_refused(tmp_path: Path) -> None:
    """A file without steps proves nothing and is refused."""
    for text in ("", "# only a comment\n"):
        result = run(write(tmp_path, "a", text))
        assert result.exit_code == 2
        assert "the file has no step: begin with" in result.stderr


FOLD = """
from controlplane.core.fold import fold

def blind(entries, profile, **settings):
    return fold([], profile, **settings)
"""

STORY = """\
cluster w1@3.9
----
ok

given config
connector-orders  {"properties":{}}
----
config@0

view connectors
----
connector   tasks  3.9 (w1)
orders      0      STARTED
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Distribution that registers a fold, as `replay` does."""
    (tmp_path / "blind_fold.py").write_text(FOLD)
    about = tmp_path / "blind_fold-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: blind-fold\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[controlplane.folds]\nblind = blind_fold:blind\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
def test_an_installed_fold_is_used(tmp_path: Path) -> None:
    """A name selects the fold; its differences are printed, and never written to the file."""
    path = write(tmp_path, "a", STORY)
    result = run("--via", "blind", path)
    assert result.exit_code == 1
    assert "    +orders      (none)  (none)   <-- via blind\n" in result.stdout
    assert run(path).exit_code == 0
    refused = run("--rewrite", "--via", "blind", path)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"Error: {path}:10: folds disagree here: settle that before rewriting\n"
    )
    sys.modules.pop("blind_fold")


@pytest.mark.usefixtures("installed")
def test_an_unknown_fold_is_refused(tmp_path: Path) -> None:
    """The error for an unknown fold lists the installed folds."""
    result = run("--via", "deaf", write(tmp_path, "a", STORY))
    assert result.exit_code == 2
    assert result.stderr == "Error: no fold 'deaf' is installed (installed: blind, spark)\n"

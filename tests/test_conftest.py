"""Seeds and the account of skipped tests: each test runs pytest on its own tiny project."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutant_processes import MutantOutcome, MutantProcesses
from tests.project_runs import PRELOADED, run_project

pytestmark = pytest.mark.slow

CONFTEST = Path(__file__).with_name("conftest.py")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Environment of a run without plugins: their import takes longer than the tests."""

CONFIG = "[pytest]\nmarkers =\n  java: x\n  shared: x\n  prove: x\n"


@pytest.fixture(scope="module")
def processes() -> Iterator[MutantProcesses]:
    """Processes that have imported pytest and hypothesis."""
    with MutantProcesses(*PRELOADED) as forks:
        yield forks


def run_pytest(
    processes: MutantProcesses, folder: Path, marker: str, **environment: str
) -> MutantOutcome:
    """Run one test with `marker` and one without; return the exit code and the output."""
    tests = folder / "project" / "tests"
    tests.mkdir(parents=True)
    shutil.copy(CONFTEST, tests)
    (tests.parent / "pytest.ini").write_text(CONFIG)
    body = f"import pytest\ndef test_a(): pass\n@pytest.mark.{marker}\ndef test_b(): pass\n"
    (tests / "test_case.py").write_text(body)
    inherited = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    variables = {**inherited, **ALONE, "PATH": str(folder), **environment}
    return run_project(processes, tests.parent, variables, "tests/test_case.py")


def test_missing_programs_are_counted_in_a_sentence(
    processes: MutantProcesses, tmp_path: Path
) -> None:
    """Without a JDK, a Java test is skipped, and the summary says so; the run passes."""
    code, output = run_pytest(processes, tmp_path, "java")
    assert code == 0
    assert "1 test was skipped: 1 (needs a JDK (17 or newer) and Maven)." in output
    assert "1 passed, 1 skipped" in output


def test_a_skip_fails_ci(processes: MutantProcesses, tmp_path: Path) -> None:
    """With CI=true the same run fails, and says why."""
    code, output = run_pytest(processes, tmp_path, "java", CI="true")
    assert code == 1
    assert "CI is set: that is a failure." in output


def test_files_outside_of_the_repository_may_be_missing_in_ci(
    processes: MutantProcesses, tmp_path: Path
) -> None:
    """A clone without ../shared is complete: CI passes."""
    code, output = run_pytest(processes, tmp_path, "shared", CI="true")
    assert code == 0
    assert "1 test was skipped: 1 (needs the folder ../shared)." in output


@pytest.mark.parametrize(
    ("environment", "closing"), [({}, "1 passed, 1 deselected"), ({"PROVE": "1"}, "2 passed")]
)
def test_long_proofs_run_only_with_prove_1(
    processes: MutantProcesses, tmp_path: Path, environment: dict[str, str], closing: str
) -> None:
    """A test marked `prove` is left out unless PROVE=1."""
    code, output = run_pytest(processes, tmp_path, "prove", **environment)
    assert code == 0
    assert closing in output


DRAWN = """
from hypothesis import given, strategies as st
from tests.conftest import seeded

def test_a():
    drawn = []

    @given(st.integers())
    def collect(number):
        drawn.append(number)

    collect()
    print("drew", drawn, seeded("a").random())
"""
"""A test that prints all its random input, from hypothesis and from a seeded source."""


def drawn(processes: MutantProcesses, folder: Path, test: str = DRAWN, **environment: str) -> str:
    """Random input of a test in a separate run."""
    tests = folder / "tests"
    tests.mkdir(parents=True)
    shutil.copy(CONFTEST, tests)
    (folder / "pytest.ini").write_text(CONFIG)
    (tests / "test_case.py").write_text(test)
    variables = {**ALONE, "PATH": os.environ["PATH"], **environment}
    code, output = run_project(processes, folder, variables, "-s", "tests/test_case.py")
    assert code == 0, output
    return next(line for line in output.splitlines() if "drew" in line)


def test_two_runs_draw_the_same(processes: MutantProcesses, tmp_path: Path) -> None:
    """`make test` draws the same examples in every run, and so gives the same verdict."""
    assert drawn(processes, tmp_path / "first") == drawn(processes, tmp_path / "second")


def test_a_proof_draws_fresh_input(processes: MutantProcesses, tmp_path: Path) -> None:
    """`make prove` draws new examples; SEED repeats the input of seeded sources."""
    fewer = {"PROVE": "1", "HYPOTHESIS_PROFILE": "test"}
    first, second = (drawn(processes, tmp_path / run, **fewer) for run in ("first", "second"))
    assert first.rpartition(" ")[2] != second.rpartition(" ")[2]
    repeated = [drawn(processes, tmp_path / f"again-{run}", SEED="7", **fewer) for run in range(2)]
    assert repeated[0] == repeated[1]


def test_examples_do_not_depend_on_imports(processes: MutantProcesses, tmp_path: Path) -> None:
    """A test draws the same alone and after others, and after a change of a literal."""
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "literals.py").write_text(f"NUMBERS = {list(range(1_000, 1_100))}")
    alone = drawn(processes, tmp_path / "first")
    behind_others = drawn(processes, tmp_path / "second", test="import literals\n" + DRAWN)
    assert alone == behind_others

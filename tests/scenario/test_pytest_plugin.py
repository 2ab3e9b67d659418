"""pytest collects scenarios in any project whose environment has the package."""

import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

SCENARIO = ROOT / "scenarios" / "json" / "empty-values.scenario"

OTHERS = [
    option
    for plugin in entry_points(group="pytest11")
    if not plugin.value.startswith("controlplane.")
    for option in ("-p", f"no:{plugin.name}")
]
"""Options that leave out the other plugins of this environment: their imports take half a run."""


def run_pytest(folder: Path) -> tuple[int, str]:
    """Run pytest in a project with scenarios and without configuration."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *OTHERS, "-q"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_scenarios_are_tests_anywhere(tmp_path: Path) -> None:
    """A scenario file passes in another project as it does here."""
    shutil.copy(SCENARIO, tmp_path)
    code, output = run_pytest(tmp_path)
    assert code == 0, output
    assert "1 passed" in output


def test_a_failing_scenario_shows_its_difference(tmp_path: Path) -> None:
    """The failure shows the step, without a traceback."""
    changed = SCENARIO.read_text(encoding="utf-8").replace("config@0", "config@7", 1)
    (tmp_path / "changed.scenario").write_text(changed, encoding="utf-8")
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "config@7" in output
    assert "Traceback" not in output


def test_a_file_that_is_no_scenario_fails_with_a_sentence(tmp_path: Path) -> None:
    """The sentence names file and line."""
    (tmp_path / "bad.scenario").write_text("walk w1\n----\n", encoding="utf-8")
    code, output = run_pytest(tmp_path)
    assert code == 1
    assert "bad.scenario:1" in output
    assert "Traceback" not in output


def test_the_plugin_costs_other_projects_nothing(tmp_path: Path) -> None:
    """Without a scenario the plugin imports nothing that plays scenarios, and so no msgspec."""
    code = "import sys\n\n\ndef test_a():\n    assert 'msgspec' not in sys.modules\n"
    (tmp_path / "test_a.py").write_text(code)
    status, output = run_pytest(tmp_path)
    assert status == 0, output

"""Plugin for pytest: each `*.scenario` file is one test, and its failure shows what differs.

pytest loads this module in every run of an environment in which the package is installed (entry
point `pytest11`). The modules that play scenarios are therefore imported only with the first
scenario.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take scenario files, by their suffix."""
    if file_path.suffix != ".scenario":
        return None
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


class ScenarioFile(pytest.File):
    """A file with one scenario in it."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one test: all steps of the scenario."""
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class ScenarioDiffers(Exception):
    """The output differs from the file, or the file is no scenario. The message shows it."""


class ScenarioItem(pytest.Item):
    """Test of one scenario: each step prints what the file expects, and all folds agree."""

    def runtest(self) -> None:
        """Play the scenario; raise `ScenarioDiffers` if its output is not as written."""
        from controlplane.scenario.run import play, read, report  # noqa: PLC0415
        from controlplane.scenario.scenario_file import BadScenario  # noqa: PLC0415 - see above

        try:
            scenario = read(Path(self._displayed_path()))
        except BadScenario as bad:
            raise ScenarioDiffers(str(bad)) from None
        text = report(scenario, asyncio.run(play(scenario)))
        if text:
            raise ScenarioDiffers(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Text of a failure: the difference; a traceback only for a defect of this program."""
        if isinstance(excinfo.value, ScenarioDiffers):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Location of the test for pytest."""
        return self.path, 0, self._displayed_path()

    def _displayed_path(self) -> str:
        """The path as the person who runs pytest would write it."""
        folder = Path.cwd()
        return str(self.path.relative_to(folder) if self.path.is_relative_to(folder) else self.path)

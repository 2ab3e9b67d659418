"""pytest collects `*.scenario`: each file is one test, and its failure shows what differs."""  # noqa: INP001 - no package

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.scenario.parse import BadScenario
from controlplane.scenario.run import play, read, report


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take scenario files, by their suffix."""
    if file_path.suffix != ".scenario":
        return None
    collector: pytest.Collector = ScenarioFile.from_parent(parent, path=file_path)
    return collector


class ScenarioFile(pytest.File):
    """A file with one scenario in it."""

    def collect(self) -> Iterator[pytest.Item]:
        """The scenario, as one test."""
        yield ScenarioItem.from_parent(self, name=self.path.stem)


class Different(Exception):
    """A scenario prints something else than is written in it. The message shows what."""


class ScenarioItem(pytest.Item):
    """One scenario: passes if every step prints what is written, and all folds agree."""

    def runtest(self) -> None:
        """Play it."""
        scenario = read(Path(self._shown()))
        text = report(scenario, asyncio.run(play(scenario)))
        if text:
            raise Different(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """What differs; a traceback only for what is a defect of ours."""
        if isinstance(excinfo.value, Different | BadScenario):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test is, for pytest's own lines."""
        return self.path, 0, self._shown()

    def _shown(self) -> str:
        """The path as the person who runs pytest would write it."""
        here = Path.cwd()
        return str(self.path.relative_to(here) if self.path.is_relative_to(here) else self.path)

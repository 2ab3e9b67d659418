"""Play of scenarios that tests give as text."""

import asyncio

from controlplane.scenario.folds import Folds
from controlplane.scenario.run import StepResult, play, report
from controlplane.scenario.scenario_file import Scenario, parse

NAME = "x.scenario"


def played(text: str, folds: Folds | None = None) -> tuple[Scenario, list[StepResult]]:
    """Scenario and the output of its steps."""
    scenario = parse(text, NAME)
    return scenario, asyncio.run(play(scenario, folds))


def printed(text: str) -> list[str]:
    """Output of the last step of a scenario."""
    return list(played(text)[1][-1].printed)


def reported(text: str, folds: Folds | None = None) -> str:
    """Play a scenario and return the report of differences."""
    return report(*played(text, folds))

"""Run of scenarios: play the steps, compare and report the output, rewrite the files.

A difference does not end the run, so that all effects of one cause are shown.
"""

import asyncio
import difflib
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from controlplane.core.text.file_errors import unreadable, unwritable
from controlplane.private_files import replacing
from controlplane.scenario.folds import Folds, FoldTasks
from controlplane.scenario.scenario_file import (
    BadScenario,
    Scenario,
    ScenarioStep,
    parse,
    rewritten,
)
from controlplane.scenario.verbs import BadStep, verb
from controlplane.scenario.world import World

ADVICE = "if every change is wanted, run `make scenarios-rewrite`, then read `git diff`"

_LARGEST_BYTES = 1_000_000
"""Largest scenario file: a larger one is certainly another kind of file."""


class StepResult(msgspec.Struct, frozen=True):
    """Step with its output; `agreed`: all folds gave the same result."""

    step: ScenarioStep
    printed: tuple[str, ...]
    agreed: bool = True

    @property
    def as_written(self) -> bool:
        """True if it printed what the file expects and all folds agreed."""
        return self.agreed and self.printed == self.step.expected


def read(path: Path) -> Scenario:
    """A scenario from a file.

    Raises:
        BadScenario: the file cannot be read, or is no scenario.
    """
    try:
        with path.open("rb") as file:  # may be a device without end
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise BadScenario(
                f"{path}: larger than {_LARGEST_BYTES:,} bytes: give a .scenario file"
            )
        return parse(content.decode(), str(path))
    except OSError as error:
        raise BadScenario(unreadable(path, error)) from None
    except UnicodeDecodeError as error:
        raise BadScenario(
            f"{path}: not UTF-8 at byte {error.start}: give a .scenario file"
        ) from None


async def play(scenario: Scenario, folds: Folds | None = None) -> list[StepResult]:
    """Run all steps in a world of their own.

    Raises:
        BadScenario: a step makes no sense; the message names file and line.
    """
    world = World(folds or Folds())
    try:
        return [await _play(world, step, scenario.name) for step in scenario.steps]
    finally:
        await world.log.close()


def play_all(scenarios: Sequence[Scenario], folds: Folds | None = None) -> list[list[StepResult]]:
    """Run all steps of all scenarios, each in a world of its own.

    With batch folds the scenarios are played twice. The first run collects the states to compute,
    the second one prints. Both runs are equal, because nothing in a scenario's world varies.

    Raises:
        BadScenario: a step makes no sense; the message names file and line.
    """
    folds = folds or Folds()
    if folds.batch:
        tasks = FoldTasks()
        asyncio.run(_play_in_turn(scenarios, Folds(tasks.remember, {})))
        answered = {name: tasks.answered(batch) for name, batch in folds.batch.items()}
        folds = Folds(folds.main, {**folds.others, **answered})
    return asyncio.run(_play_in_turn(scenarios, folds))


async def _play_in_turn(scenarios: Sequence[Scenario], folds: Folds) -> list[list[StepResult]]:
    return [await play(scenario, folds) for scenario in scenarios]


async def _play(world: World, step: ScenarioStep, name: str) -> StepResult:
    world.disagreed = False
    try:
        printed = tuple(await verb(step.verb)(world, step))
    except BadStep as error:
        raise BadScenario(f"{name}:{step.line + error.line}: {error}") from None
    assert printed, f"{step.verb} printed nothing"
    assert all(line.strip() for line in printed), f"{step.verb} printed a blank line"
    return StepResult(step, printed, not world.disagreed)


def report(scenario: Scenario, played: Sequence[StepResult]) -> str:
    """Report of the differences by step, with advice; empty if there are none."""
    different = [step for step in played if not step.as_written]
    blocks = ["\n".join(difference(scenario, step)) for step in different]
    return "\n\n".join([*blocks, ADVICE]) if blocks else ""


def difference(scenario: Scenario, played: StepResult) -> Iterator[str]:
    """Yield the position and text of a step, then the indented diff of its output."""
    step = played.step
    yield f"{scenario.name}:{step.line}: {step.text}"
    context = len(step.expected) + len(played.printed)
    lines = list(difflib.unified_diff(step.expected, played.printed, n=context, lineterm=""))
    # The first three lines of a diff name files and line numbers, as the line above does.
    for line in lines[3:] or [f" {line}" for line in played.printed]:
        yield f"    {line}"


def rewrite(path: Path, scenario: Scenario, played: Sequence[StepResult]) -> bool:
    """Write the output into the file; return True if that changed it. The mode stays.

    Raises:
        BadScenario: the file or its folder is not writable, or folds disagree; a doubtful output
            must not become the expected one.
        OSError: the file cannot be replaced, and is as it was.
    """
    for step in played:
        if not step.agreed:
            place = f"{scenario.name}:{step.step.line}"
            raise BadScenario(f"{place}: folds disagree here: settle that before rewriting")
    text = rewritten(scenario, [step.printed for step in played])
    if text == "".join(scenario.lines):
        return False
    mode = stat.S_IMODE(path.stat().st_mode)
    try:
        with replacing(path) as draft:
            draft.write_bytes(text.encode())
            draft.chmod(mode)
    except PermissionError as error:  # names the draft
        raise BadScenario(unwritable(path, error)) from None
    return True

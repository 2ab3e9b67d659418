"""The two examples by which the language was designed: they parse, and play as far as verbs go.

They send requests, which are carried out by a later version; up to the first one they print what is
written in them.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest

from controlplane.scenario.parse import BadScenario
from controlplane.scenario.run import play, read
from controlplane.scenario.verbs import LATER, VERBS

EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*.scenario"))

STEPS = {
    "create-with-offsets-crash-after-wipe": 12,
    "stop-in-mixed-3.4-3.7-cluster": 14,
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read(path: Path) -> None:
    """Every step with its verb, all of which the language knows, and what it prints."""
    scenario = read(path)
    assert len(scenario.steps) == STEPS[path.stem]
    assert {step.verb for step in scenario.steps} <= {*VERBS, *LATER}
    assert all(step.expected for step in scenario.steps)
    assert scenario.title.endswith(".")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_plays_up_to_its_first_request(path: Path) -> None:
    """To the letter; then it says in one sentence what is missing."""
    scenario = read(path)
    first = next(n for n, step in enumerate(scenario.steps) if step.verb in LATER)
    beginning = msgspec.structs.replace(scenario, steps=scenario.steps[:first])
    played = asyncio.run(play(beginning))
    assert len(played) >= 2
    assert all(one.as_written for one in played)
    with pytest.raises(BadScenario) as failure:
        asyncio.run(play(scenario))
    place = f"{path}:{scenario.steps[first].line}: `{scenario.steps[first].verb}` sends commands"
    assert str(failure.value).startswith(place)


@pytest.mark.shared
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_as_designed(path: Path, shared: Path) -> None:
    """Byte for byte."""
    assert path.read_text() in (shared / "scenarios.md").read_text()

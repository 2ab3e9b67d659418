"""Table of the verbs of scenarios; each is a function.

A new verb needs a function with a docstring and an example, a row here, and a line in
`scenarios/README.md`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs.log import compact, given, log
from controlplane.scenario.verbs.requests import request
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.verbs.undo import undo
from controlplane.scenario.verbs.view import view
from controlplane.scenario.verbs.workers import cluster, crash, roll, stabilize, start, tick
from controlplane.scenario.world import World

__all__ = ["VERBS", "BadStep", "VerbFunction", "verb"]

VerbFunction = Callable[[World, ScenarioStep], Awaitable[Sequence[str]]]
"""Executes a step and returns its output, without blank lines."""

VERBS: Mapping[str, VerbFunction] = {
    "cluster": cluster,
    "compact": compact,
    "crash": crash,
    "given": given,
    "log": log,
    "roll": roll,
    "stabilize": stabilize,
    "start": start,
    "tick": tick,
    "undo": undo,
    "view": view,
    **dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), request),
}


def verb(name: str) -> VerbFunction:
    """The verb of this name.

    Raises:
        BadStep: there is none.
    """
    if name not in VERBS:
        raise BadStep(f"`{name}` is not a verb: use {', '.join(VERBS)}")
    return VERBS[name]

"""The verbs: one table, one function each. A scenario can do what stands here and nothing else.

A new verb needs a function with a docstring and an example, a row here, and a line in
`scenarios/README.md`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from controlplane.scenario.parse import Step
from controlplane.scenario.verbs.asking import BadStep
from controlplane.scenario.verbs.cluster import cluster
from controlplane.scenario.verbs.compact import compact
from controlplane.scenario.verbs.given import given
from controlplane.scenario.verbs.log import log
from controlplane.scenario.verbs.roll import roll
from controlplane.scenario.verbs.view import view
from controlplane.scenario.world import World

__all__ = ["VERBS", "BadStep", "Verb", "verb"]

Verb = Callable[[World, Step], Awaitable[Sequence[str]]]
"""Does what a step says and answers the lines it prints, of which none is blank."""

VERBS: Mapping[str, Verb] = {
    "cluster": cluster,
    "compact": compact,
    "given": given,
    "log": log,
    "roll": roll,
    "view": view,
}

LATER = ("GET", "POST", "PUT", "PATCH", "DELETE", "crash", "start", "tick", "stabilize")
"""Verbs of the language that need commands, which this version does not carry out yet."""


def verb(name: str) -> Verb:
    """The verb of this name.

    Raises:
        BadStep: there is none.
    """
    if name in VERBS:
        return VERBS[name]
    known = ", ".join(VERBS)
    if name in LATER:
        raise BadStep(f"`{name}` sends commands, which this version cannot do yet: use {known}")
    raise BadStep(f"`{name}` is not a verb: use {known}")

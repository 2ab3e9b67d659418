"""Queries for states: the input of the engines."""

from collections.abc import Sequence
from typing import NamedTuple

from controlplane.core.releases.profiles import Profile
from replay.engine.local_engine import LocalEngine
from replay.engine.plans.read_plan import ReadPlan


class StateQuery(NamedTuple):
    """Query for the states of some releases at the cut of a plan."""

    local: LocalEngine
    """Engine of the queried archive."""
    plan: ReadPlan
    profiles: Sequence[Profile]

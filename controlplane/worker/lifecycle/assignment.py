"""Assignment of a connector: the facts in the log that determine how it must run."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from controlplane.core.entry import Position
from controlplane.core.records import Properties, Target
from controlplane.core.state import Aspect, ClusterState


class Assignment(NamedTuple):
    """Config, target state and tasks of a connector."""

    config: Properties
    config_record: Position | None
    """Record of the config: a config that is written again restarts the connector, even if equal.
    """
    target: Target
    tasks: tuple[Mapping[str, Any], ...]
    tasks_record: Position | None
    """Record that committed the tasks: each commit restarts them."""


def assignment_of(state: ClusterState, name: str) -> Assignment | None:
    """Return the assignment of a connector; None: it does not exist."""
    config = state.config.connectors.get(name)
    if config is None:
        return None
    configs = state.config.tasks.get(name, {})
    tasks = tuple(configs[task] for task in state.config.task_ids(name) if task in configs)
    return Assignment(
        config,
        state.changed.get((name, Aspect.CONFIG, "")),
        state.config.targets.get(name, Target.STARTED),
        tasks,
        state.changed.get((name, Aspect.TASKS, "")),
    )

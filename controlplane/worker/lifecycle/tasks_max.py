"""Limit of the tasks of a connector: `tasks.max` and `tasks.max.enforce` (KIP-1004)."""

from collections.abc import Mapping
from typing import Any

from controlplane.connect.errors import ConnectError
from controlplane.core.releases.profiles import Profile


def tasks_max(config: Mapping[str, Any]) -> int:
    """Return the limit of a connector's tasks."""
    return int(config.get("tasks.max") or 1)


def _is_enforced(config: Mapping[str, Any]) -> bool:
    """True if a connector with more tasks fails (`tasks.max.enforce`)."""
    return str(config.get("tasks.max.enforce") or "true").strip().lower() != "false"


def _too_many_tasks(name: str, tasks: int, limit: int) -> ConnectError:
    """Return the failure of a connector that has generated more tasks."""
    return ConnectError(
        f"The connector {name} has generated {tasks} tasks, which is greater than {limit}, the "
        "maximum number of tasks it is configured to create. This behaviour should be considered "
        "a bug and is disallowed. If necessary, it can be permitted by reconfiguring the connector "
        "with 'tasks.max.enforce' set to false; however, this option will be removed in a future "
        "release of Kafka Connect."
    )


def excess_tasks(
    name: str, config: Mapping[str, Any], tasks: int, profile: Profile
) -> ConnectError | None:
    """Return the failure if a connector may not have that many tasks (KIP-1004)."""
    limit = tasks_max(config)
    enforced = profile.tasks_max_enforced and _is_enforced(config)
    return _too_many_tasks(name, tasks, limit) if enforced and tasks > limit else None

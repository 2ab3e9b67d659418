"""Limit of the tasks of a connector: `tasks.max` and `tasks.max.enforce` (KIP-1004)."""

from collections.abc import Mapping
from typing import Any

from controlplane.connect.errors import ConnectError


def tasks_max(config: Mapping[str, Any]) -> int:
    """Return the limit of a connector's tasks."""
    return int(config.get("tasks.max") or 1)


def is_enforced(config: Mapping[str, Any]) -> bool:
    """True if a connector with more tasks fails (`tasks.max.enforce`)."""
    return str(config.get("tasks.max.enforce") or "true").strip().lower() != "false"


def too_many_tasks(name: str, tasks: int, limit: int) -> ConnectError:
    """Return the failure of a connector that has generated more tasks."""
    return ConnectError(
        f"The connector {name} has generated {tasks} tasks, which is greater than {limit}, the "
        "maximum number of tasks it is configured to create. This behaviour should be considered "
        "a bug and is disallowed. If necessary, it can be permitted by reconfiguring the connector "
        "with 'tasks.max.enforce' set to false; however, this option will be removed in a future "
        "release of Kafka Connect."
    )

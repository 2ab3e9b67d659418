"""Limit of the tasks of a connector: `tasks.max` and `tasks.max.enforce` (KIP-1004)."""

from collections.abc import Mapping
from typing import Any

from controlplane.connect.errors import ConnectError
from controlplane.core.java.java_library import parse_int
from controlplane.core.releases.profiles import Profile

_LIMIT, _ENFORCED = "tasks.max", "tasks.max.enforce"


def tasks_max(config: Mapping[str, Any]) -> int:
    """Return the limit of a connector's tasks. `config`: with its references resolved.

    Raises:
        ConnectError: it is no integer above 0. A command cannot check the value of a reference.
    """
    text = str(config.get(_LIMIT) or 1)
    limit = parse_int(text.strip())
    if limit is None:
        raise ConnectError(
            f"Invalid value {text} for configuration {_LIMIT}: Not a number of type INT"
        )
    if limit < 1:
        raise ConnectError(
            f"Invalid value {limit} for configuration {_LIMIT}: Value must be at least 1"
        )
    return limit


def limit_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a connector's config that limits its tasks."""
    return {key: config[key] for key in (_LIMIT, _ENFORCED) if key in config}


def resolved_limits(config: Mapping[str, Any], resolved: Mapping[str, str]) -> Mapping[str, str]:
    """Return the part of a resolved config that limits tasks; `config`: with its references.

    Defaults of the connector's class do not count, as in Kafka.
    """
    return {key: resolved[key] for key in limit_settings(config) if key in resolved}


def _is_enforced(config: Mapping[str, Any]) -> bool:
    """True if a connector with more tasks than `tasks.max` fails (`tasks.max.enforce`)."""
    return str(config.get(_ENFORCED) or "true").strip().lower() != "false"


def _too_many_tasks(name: str, tasks: int, limit: int) -> ConnectError:
    """Return the failure of a connector that has generated more tasks than the limit."""
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
    """Return the failure if a connector may not have that many tasks (KIP-1004).

    Raises:
        ConnectError: see `tasks_max`.
    """
    limit = tasks_max(config)
    enforced = profile.tasks_max_enforced and _is_enforced(config)
    return _too_many_tasks(name, tasks, limit) if enforced and tasks > limit else None

"""Limit of the tasks of a connector: `tasks.max` and `tasks.max.enforce` (KIP-1004)."""

from collections.abc import Mapping
from typing import Any, Final

from controlplane.connect.config import key
from controlplane.connect.errors import ConnectError
from controlplane.core.configdef.validators import check_valid
from controlplane.core.configdef.value_parser import InvalidValue, parse
from controlplane.core.releases.profiles import Profile

_LIMIT: Final = key("tasks.max", "INT", 1, valid="[1,...]")
_ENFORCED: Final = "tasks.max.enforce"


def tasks_max(config: Mapping[str, Any]) -> int:
    """Return the limit of a connector's tasks. `config`: with its references resolved.

    Raises:
        ConnectError: the limit is no integer above 0. Commands refuse such a `tasks.max`.
            But they accept any reference, such as `${file:…}`, because they do not read its value.
    """
    try:
        limit = parse(_LIMIT, str(config.get(_LIMIT.name) or 1), lambda _key, _text: None)
        check_valid(_LIMIT.name, _LIMIT.valid, limit)
    except InvalidValue as invalid:
        raise ConnectError(str(invalid)) from None
    assert isinstance(limit, int), "the type of the key"
    return limit


def limit_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a connector's config that limits its tasks."""
    return {name: config[name] for name in (_LIMIT.name, _ENFORCED) if name in config}


def resolved_limits(config: Mapping[str, Any], resolved: Mapping[str, str]) -> Mapping[str, str]:
    """Return the part of a resolved config that limits tasks.

    `config` is the same config before its references were resolved: only its keys count.

    Defaults of the connector's class do not count, as in Kafka.
    """
    return {name: resolved[name] for name in limit_settings(config) if name in resolved}


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

"""Values of facts about a connector, as people are shown them: short, and without secrets."""

from collections.abc import Mapping
from typing import Any

from controlplane.cli.printing import TOMBSTONE, json_line
from controlplane.core.diff import Aspect
from controlplane.core.redact import is_secret, redacted_text, redacted_value


def shown(aspect: Aspect, item: Any, value: Any) -> Any:
    """A fact's value as JSON without secrets; None: absent."""
    return redacted_value(item if aspect is Aspect.CONFIG else "", value)


def item(aspect: Aspect, name: Any) -> str:
    """Which fact it is: config key, task, topic; a source partition as JSON without secrets."""
    if aspect is not Aspect.SOURCE_OFFSET:
        return str(name)
    return redacted_text(name) if isinstance(name, str) else json_line(redacted_value("", name))


def text(aspect: Aspect, item: Any, value: Any) -> str:
    """A fact's value in a few words; `∅` where there is none."""
    if value is None:
        return TOMBSTONE
    plain = shown(aspect, item, value)
    if aspect in (Aspect.STATUS, Aspect.TASK_STATUS):
        return _status(plain)
    return plain if isinstance(plain, str) else json_line(plain)


def change(aspect: Aspect, item: Any, before: Any, after: Any) -> str:
    """What became of a fact: `PAUSED → STOPPED`; of two maps only the members that differ."""
    if aspect is Aspect.TASK_CONFIG and isinstance(before, Mapping) and isinstance(after, Mapping):
        return _members(before, after)
    if aspect in (Aspect.STATUS, Aspect.TASK_STATUS) and _stays(before, after):
        return f"{before['state']} → {text(aspect, item, after)}"
    words = f"{text(aspect, item, before)} → {text(aspect, item, after)}"
    hidden = aspect is Aspect.CONFIG and is_secret(item) and None not in (before, after)
    return f"{words} (another value)" if hidden else words


def _stays(before: Any, after: Any) -> bool:
    """Whether the same worker reports another state."""
    if before is None or after is None or before["state"] == after["state"]:
        return False
    return bool(before["worker_id"] == after["worker_id"])


def _members(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(
        f"{name}: {change(Aspect.CONFIG, name, before.get(name), after.get(name))}"
        for name in names
    )


def _status(status: Mapping[str, Any]) -> str:
    trace = status.get("trace")
    why = f": {trace.splitlines()[0]}" if isinstance(trace, str) and trace else ""
    return f"{status['state']} on {status['worker_id']}{why}"

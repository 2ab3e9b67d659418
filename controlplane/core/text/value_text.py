"""Text of values: short, of bounded depth, and without secrets.

A fact is one value of a connector, for example that of a config key. Its kind is an `Aspect`.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.core.codec.offsets import frozen
from controlplane.core.state import Aspect
from controlplane.core.text.redaction import SCALARS, redacted_text, redacted_value
from controlplane.core.text.safe_text import ELLIPSIS

DEPTH_SHOWN = 32
"""Limit of the nesting that is shown; `…` replaces deeper containers."""

TOMBSTONE = "∅"

# --- JSON ------------------------------------------------------------------------------------


def json_line(value: Any) -> str:
    """A JSON value on one line; `…` replaces containers deeper than `DEPTH_SHOWN`."""
    return json.dumps(bounded(value), ensure_ascii=False)


def bounded(value: Any) -> Any:
    """A JSON value in which `…` replaces the containers deeper than `DEPTH_SHOWN`."""
    return plain(value, DEPTH_SHOWN)


def plain(value: Any, depth_max: int | None = None) -> Any:
    """Convert a value to dicts, lists and scalars for `json`. `depth_max` None: any depth.

    NaN and infinities become text, as in Jackson. The function is not recursive: values may be
    nested deeper than Python's stack.
    """
    root: list[Any] = [None]
    pending: list[tuple[Any, Any, Any, int]] = [(root, 0, value, 1)]
    while pending:
        container, place, item, depth = pending.pop()
        if isinstance(item, SCALARS) or not isinstance(item, Mapping | list | tuple | range):
            container[place] = _without_infinities(item)
        elif depth_max is not None and depth > depth_max:
            container[place] = ELLIPSIS
        else:
            container[place], members = _empty_container(item)
            pending += [(container[place], index, member, depth + 1) for index, member in members]
    return root[0]


def redacted_json(text: str) -> str:
    """Redact the text of a record's value. JSON stays unchanged unless it may hold a secret.

    Members with the same name may hide a secret, because only the last one is decoded, as in
    Jackson. Then only the decoded members are shown.
    """
    has_repeated_names = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeated_names
        decoded = dict(pairs)
        has_repeated_names |= len(decoded) < len(pairs)
        return decoded

    try:
        value = json.loads(text, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return redacted_text(text)
    hidden = redacted_value("", value)
    return json_line(hidden) if has_repeated_names or hidden != value else text


def _empty_container(item: Any) -> tuple[Any, Iterable[tuple[Any, Any]]]:
    """A container with an empty place per member, and the members with their places."""
    if isinstance(item, Mapping):
        names = {str(name): member for name, member in item.items()}
        return dict.fromkeys(names), names.items()
    return [None] * len(item), enumerate(item)


def _without_infinities(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


# --- facts about a connector -----------------------------------------------------------------


def json_value(aspect: Aspect, item: Any, value: Any) -> Any:
    """A fact's value as JSON without secrets; None: absent."""
    return redacted_value(item if aspect is Aspect.CONFIG else "", value)


def item(aspect: Aspect, name: Any) -> str:
    """Item of a fact: config key, task, topic; a source partition as JSON without secrets."""
    if aspect is not Aspect.SOURCE_OFFSET:
        return str(name)
    return redacted_text(name) if isinstance(name, str) else json_line(redacted_value("", name))


def text(aspect: Aspect, item: Any, value: Any) -> str:
    """A fact's value in a few words; `∅` if absent."""
    if value is None:
        return TOMBSTONE
    plain = json_value(aspect, item, value)
    if aspect in (Aspect.STATUS, Aspect.TASK_STATUS):
        return _status(plain)
    return plain if isinstance(plain, str) else json_line(plain)


def change(aspect: Aspect, item: Any, before: Any, after: Any) -> str:
    """Change of a fact: `PAUSED → STOPPED`; of two task configs only the keys that differ.

    Two values may look alike, because a secret or a part is not shown. A remark then says so.
    """
    if aspect is Aspect.TASK_CONFIG and isinstance(before, Mapping) and isinstance(after, Mapping):
        return _member_changes(before, after)
    if aspect in (Aspect.STATUS, Aspect.TASK_STATUS) and _stays_on_worker(before, after):
        return f"{before['state']} → {text(aspect, item, after)}"
    return _arrow(text(aspect, item, before), text(aspect, item, after))


def _arrow(before: str, after: str) -> str:
    """A change in words; a remark tells two values apart that look alike."""
    return f"{before} → {after}" + (" (another value)" if before == after else "")


def _stays_on_worker(before: Any, after: Any) -> bool:
    """True if the state changed on the same worker: its name is then shown only once."""
    if before is None or after is None or before["state"] == after["state"]:
        return False
    return bool(before["worker_id"] == after["worker_id"])


def _member_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Changes of the members that differ; a member that is null is not absent."""
    return ", ".join(
        f"{name}: {_arrow(_member_text(before, name), _member_text(after, name))}"
        for name in differing_names(before, after)
    )


def _member_text(members: Mapping[str, Any], name: str) -> str:
    is_null = name in members and members[name] is None
    return "null" if is_null else text(Aspect.CONFIG, name, members.get(name))


def differing_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Names of the members that differ in Java.

    There, 1, 1.0 and true differ, and a member that is null differs from an absent one.
    """
    absent = object()
    return [
        name
        for name in {**before, **after}
        if frozen(before.get(name, absent)) != frozen(after.get(name, absent))
    ]


def _status(status: Mapping[str, Any]) -> str:
    trace = status.get("trace")
    why = f": {trace.splitlines()[0]}" if isinstance(trace, str) and trace else ""
    return f"{status['state']} on {status['worker_id']}{why}"

"""Behaviour of a connector's `alterOffsets` hook for offsets that are to be written (KIP-875).

A catalogue describes it in words:

    accepts                                  returns true: the connector will use these offsets
    declines                                 returns false (the default in Kafka)
    raises ConnectException('TEXT')          they are refused with this text
    raises UnsupportedOperationException     no offsets can be altered from outside
    as FileStreamSourceConnector             (or one of MirrorMaker's) checks like that connector
    by the config key 'KEY': VALUE accepts, VALUE declines, …
                                             one of the first four, by the value of this key

Kafka: `FileStreamSourceConnector`, `MirrorUtils`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from controlplane.core.java.java_library import hash_map_order, narrow_int, trim
from controlplane.core.java.json_values import is_integer, value_text
from controlplane.core.plan import HookFailure, HookOutcome, HookSuccess, Offsets
from controlplane.core.records import JsonObject

Hook = Callable[[Mapping[str, Any], Offsets], HookOutcome]
"""Calls a hook with the connector's config and offsets, as Connect has read them."""

_OffsetCheck = Callable[[JsonObject | None, JsonObject], None]


class UnknownHook(ValueError):
    """The words describe no hook. The message names them."""


class _HookRefusal(Exception):
    """A `ConnectException` thrown by the hook, whose text the client gets."""


def declines(_config: JsonObject, _offsets: Offsets) -> HookOutcome:
    """Return false: no statement about the offsets (the default in Kafka)."""
    return HookSuccess(definite=False)


def accepts(_config: JsonObject, _offsets: Offsets) -> HookOutcome:
    """Return true, for offsets of any form."""
    return HookSuccess(definite=True)


def unsupported(config: JsonObject, _offsets: Offsets) -> HookOutcome:
    """Throw `UnsupportedOperationException`, which the worker answers with this text."""
    return HookFailure(
        f"Failed to modify offsets for connector {config.get('name')} because it doesn't support "
        "external modification of offsets"
    )


def _raises(text: str, _config: JsonObject, _offsets: Offsets) -> HookOutcome:
    return HookFailure(text)


def isolated(hook: Hook) -> Hook:
    """Wrap a hook so that it gets copies, and cannot change published state."""

    def with_copies(config: JsonObject, offsets: Offsets) -> HookOutcome:
        pairs = tuple((_copied(partition), _copied(offset)) for partition, offset in offsets)
        return hook(_copied(config), pairs)

    return with_copies


def _copied(value: Any) -> Any:
    """Copy maps and lists without recursion: they may be nested deeper than Python's stack."""
    root: list[Any] = [None]
    pending: list[tuple[Any, Any, Any]] = [(root, 0, value)]
    while pending:
        container, place, item = pending.pop()
        if isinstance(item, Mapping):
            container[place] = dict.fromkeys(item)
            pending += [(container[place], name, member) for name, member in item.items()]
        elif isinstance(item, list):
            container[place] = [None] * len(item)
            pending += [(container[place], index, member) for index, member in enumerate(item)]
        else:
            container[place] = item
    return root[0]


# --- words --------------------------------------------------------------------------------------

_RAISES = re.compile(r"raises ConnectException\('(.*)'\)", re.DOTALL)
_BY_KEY = re.compile(r"by the config key '([^']+)': (.+)", re.DOTALL)
_CASE_WORDS = re.compile(
    r"(\S+) (accepts|declines|raises (?:ConnectException\('.*?'\)|UnsupportedOperationException))"
    r"(?:, |$)"
)


def parse_hook(words: str, defaults: Mapping[str, str | None] | None = None) -> Hook:
    """The hook that the words describe. `defaults` are values of absent config keys.

    Raises:
        UnknownHook: the words describe none.
    """
    text = words.strip()
    if text in _HOOKS:
        return _HOOKS[text]
    if (raised := _RAISES.fullmatch(text)) is not None:
        return partial(_raises, raised[1])
    by_key = _BY_KEY.fullmatch(text)
    cases = {} if by_key is None else dict(_cases(by_key[2]))
    if by_key is None or not cases:
        raise UnknownHook(
            f"{words!r} does not say what the hook does: use one of {', '.join(_HOOKS)}"
        )
    return partial(_by_key, by_key[1], (defaults or {}).get(by_key[1]), cases)


def _cases(text: str) -> Iterable[tuple[str, Hook]]:
    start = 0
    while start < len(text):
        case = _CASE_WORDS.match(text, start)
        if case is None:
            raise UnknownHook(
                f"{text[start:]!r} does not say what the hook does: "
                "write cases as VALUE accepts, VALUE declines"
            )
        yield case[1], parse_hook(case[2])
        start = case.end()


def _by_key(
    key: str,
    default: str | None,
    cases: Mapping[str, Hook],
    config: JsonObject,
    offsets: Offsets,
) -> HookOutcome:
    """Call the hook that the cases name for a config key's value; any other value declines."""
    value = config.get(key, default) or ""
    hook = cases.get(value, declines) if isinstance(value, str) else declines
    return hook(config, offsets)


# --- connectors of Kafka's own ------------------------------------------------------------------


def _checked(check: _OffsetCheck, _config: JsonObject, offsets: Offsets) -> HookOutcome:
    """Check each offset and return true. Offsets to be removed are not checked."""
    try:
        for partition, offset in offsets:
            if offset is not None:
                check(partition, offset)
    except _HookRefusal as refused:
        return HookFailure(str(refused))
    return HookSuccess(definite=True)


def _file_stream_source(config: JsonObject, offsets: Offsets) -> HookOutcome:
    # The connector parses its config, and `ConfigDef` trims texts.
    if not trim(str(config.get("file") or "")):
        return HookFailure(
            "Offsets cannot be modified if the 'file' configuration is unspecified. This is "
            "because stdin is used for input and offsets are not tracked."
        )
    return _checked(_file_position, config, offsets)


def _file_position(partition: JsonObject | None, offset: JsonObject) -> None:
    """Check of `FileStreamSourceConnector`: a position of 0 or more in a named file."""
    if "position" not in offset:
        raise _HookRefusal("Offset objects should either be null or contain the key 'position'")
    position = offset["position"]
    # Connect's converter reads every integer as a Long.
    if not is_integer(position):
        raise _HookRefusal(
            "The value for the 'position' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise _HookRefusal(
            "The value for the 'position' key in the offset should be a non-negative value"
        )
    if partition is None:
        raise _HookRefusal("Partition objects cannot be null")
    if "filename" not in partition:
        raise _HookRefusal("Partition objects should contain the key 'filename'")


def _mirror_check(names: tuple[str, ...], *, numbered: bool, only_zero: bool) -> _OffsetCheck:
    """Check of one of MirrorMaker's connectors (`MirrorUtils`).

    Args:
        names: fields of the partition that must be strings.
        numbered: the partition must have a `partition` number.
        only_zero: the offset must be 0; otherwise it must not be negative.
    """

    def check(partition: JsonObject | None, offset: JsonObject) -> None:
        if partition is None:
            raise _HookRefusal("Source partitions may not be null")
        for name in names:
            _check_text(partition, name)
        if numbered:
            _check_partition(partition)
        _check_offset(partition, offset, only_zero=only_zero)

    return check


def _check_text(partition: JsonObject, name: str) -> None:
    subject = f"Source partition {_values_text(partition)}"
    if name not in partition:
        raise _HookRefusal(f"{subject} is missing the '{name}' key, which is required")
    if not isinstance(partition[name], str):
        _refuse_value(subject, partition, name, ", which must be a string")


def _check_partition(partition: JsonObject) -> None:
    subject = f"Source partition {_values_text(partition)}"
    if "partition" not in partition:
        raise _HookRefusal(f"{subject} is missing the 'partition' key, which is required")
    number = partition["partition"]
    if not is_integer(number) or number >= 2**31:
        _refuse_value(subject, partition, "partition", ", which must be an integer")
    # Java narrows the Long to an int first, so -2**32 counts as 0.
    if narrow_int(number) < 0:
        _refuse_value(subject, partition, "partition", ", which cannot be negative")


def _check_offset(partition: JsonObject, offset: JsonObject, *, only_zero: bool) -> None:
    subject = f"Source offset {_values_text(offset)} for source partition {_values_text(partition)}"
    if "offset" not in offset:
        raise _HookRefusal(f"{subject} is missing the 'offset' key, which is required")
    number = offset["offset"]
    if not is_integer(number):
        _refuse_value(subject, offset, "offset", ", which must be an integer")
    if only_zero and number != 0:
        _refuse_value(subject, offset, "offset", "; the only accepted value is 0")
    if not only_zero and number < 0:
        _refuse_value(subject, offset, "offset", ", which cannot be negative")


def _refuse_value(subject: str, values: JsonObject, name: str, why: str) -> None:
    value = value_text(values[name])
    raise _HookRefusal(f"{subject} has an invalid value {value} for the '{name}' key{why}")


def _values_text(values: JsonObject) -> str:
    return value_text({name: values[name] for name in hash_map_order(values)})


_MIRRORS = {
    "MirrorSourceConnector": _mirror_check(("cluster", "topic"), numbered=True, only_zero=False),
    "MirrorHeartbeatConnector": _mirror_check(
        ("sourceClusterAlias", "targetClusterAlias"), numbered=False, only_zero=True
    ),
    "MirrorCheckpointConnector": _mirror_check(("group", "topic"), numbered=True, only_zero=True),
}

_HOOKS: Mapping[str, Hook] = {
    "accepts": accepts,
    "declines": declines,
    "raises UnsupportedOperationException": unsupported,
    "as FileStreamSourceConnector": _file_stream_source,
    **{f"as {name}": partial(_checked, check) for name, check in _MIRRORS.items()},
}
"""Hooks whose words need no parsing."""

"""What a connector's `alterOffsets` says of offsets that somebody wants to write (KIP-875).

A catalogue says it in words:

    accepts                                  these offsets are surely where the connector looks
    declines                                 perhaps they are not (the default of `Connector`)
    raises ConnectException('TEXT')          they are refused with this text
    raises UnsupportedOperationException     no offsets can be altered from outside
    as FileStreamSourceConnector             (or one of MirrorMaker's) checked as Kafka's own does
    by the config key 'KEY': VALUE accepts, VALUE declines, …
                                             one of the first four, by what the config says

Kafka: `FileStreamSourceConnector`, `MirrorUtils`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from controlplane.core.java import hash_map_order, narrow_int
from controlplane.core.java_values import value_text
from controlplane.core.plan import Done, HookOutcome, Offsets, Thrown

Hook = Callable[[Mapping[str, Any], Offsets], HookOutcome]
"""From a connector's config and offsets, as Connect has read them, to what the hook does."""

_Map = Mapping[str, Any]
_Check = Callable[[_Map | None, _Map], None]


class UnknownHook(ValueError):
    """Words that describe no hook. The message says which."""


class _Refused(Exception):
    """A `ConnectException` that the hook throws: its text is what the asker reads."""


def declines(_config: _Map, _offsets: Offsets) -> HookOutcome:
    """Says nothing about the offsets: what `alterOffsets` does where nobody has written one."""
    return Done(definite=False)


def accepts(_config: _Map, _offsets: Offsets) -> HookOutcome:
    """Any offsets are right."""
    return Done(definite=True)


def unsupported(config: _Map, _offsets: Offsets) -> HookOutcome:
    """The connector's offsets are nobody's business."""
    return Thrown(
        f"Failed to modify offsets for connector {config.get('name')} because it doesn't support "
        "external modification of offsets"
    )


def _raises(text: str, _config: _Map, _offsets: Offsets) -> HookOutcome:
    return Thrown(text)


def undisturbing(hook: Hook) -> Hook:
    """The same hook, asked with copies: what is published as state is nobody's to change."""

    def asked(config: _Map, offsets: Offsets) -> HookOutcome:
        pairs = tuple((_copied(partition), _copied(offset)) for partition, offset in offsets)
        return hook(_copied(config), pairs)

    return asked


def _copied(value: Any) -> Any:
    """Maps and lists made anew. They may be nested more deeply than Python calls."""
    done: list[Any] = [None]
    waiting: list[tuple[Any, Any, Any]] = [(done, 0, value)]
    while waiting:
        into, place, item = waiting.pop()
        if isinstance(item, Mapping):
            into[place] = dict.fromkeys(item)
            waiting += [(into[place], name, member) for name, member in item.items()]
        elif isinstance(item, list):
            into[place] = [None] * len(item)
            waiting += [(into[place], index, one) for index, one in enumerate(item)]
        else:
            into[place] = item
    return done[0]


# --- words --------------------------------------------------------------------------------------

_RAISES = re.compile(r"raises ConnectException\('(.*)'\)", re.DOTALL)
_BY_KEY = re.compile(r"by the config key '([^']+)': (.+)", re.DOTALL)
_CASE = re.compile(
    r"(\S+) (accepts|declines|raises (?:ConnectException\('.*?'\)|UnsupportedOperationException))"
    r"(?:, |$)"
)


def parse_hook(words: str, defaults: Mapping[str, str | None] | None = None) -> Hook:
    """The hook that words describe. `defaults` are values of config keys that are not given.

    Raises:
        UnknownHook: they describe none.
    """
    text = words.strip()
    if text in _HOOKS:
        return _HOOKS[text]
    if (raised := _RAISES.fullmatch(text)) is not None:
        return partial(_raises, raised[1])
    by_key = _BY_KEY.fullmatch(text)
    cases = {} if by_key is None else dict(_cases(by_key[2]))
    if by_key is None or not cases:
        raise UnknownHook(f"{words!r} says not what the hook does: use one of {', '.join(_HOOKS)}")
    return partial(_by_key, by_key[1], (defaults or {}).get(by_key[1]), cases)


def _cases(text: str) -> Iterable[tuple[str, Hook]]:
    at = 0
    while at < len(text):
        case = _CASE.match(text, at)
        if case is None:
            raise UnknownHook(f"{text[at:]!r} says not what the hook does")
        yield case[1], parse_hook(case[2])
        at = case.end()


def _by_key(
    key: str, default: str | None, cases: Mapping[str, Hook], config: _Map, offsets: Offsets
) -> HookOutcome:
    hook = cases.get(config.get(key, default) or "", declines)
    return hook(config, offsets)


# --- connectors of Kafka's own ------------------------------------------------------------------


def _checked(check: _Check, _config: _Map, offsets: Offsets) -> HookOutcome:
    """A hook that looks at each offset; what is taken away may be anything."""
    try:
        for partition, offset in offsets:
            if offset is not None:
                check(partition, offset)
    except _Refused as refused:
        return Thrown(str(refused))
    return Done(definite=True)


def _file_stream_source(config: _Map, offsets: Offsets) -> HookOutcome:
    if not config.get("file"):
        return Thrown(
            "Offsets cannot be modified if the 'file' configuration is unspecified. This is "
            "because stdin is used for input and offsets are not tracked."
        )
    return _checked(_file_position, config, offsets)


def _file_position(partition: _Map | None, offset: _Map) -> None:
    if "position" not in offset:
        raise _Refused("Offset objects should either be null or contain the key 'position'")
    position = offset["position"]
    if not _is_integer(position):
        raise _Refused(
            "The value for the 'position' key in the offset is expected to be a Long value"
        )
    if position < 0:
        raise _Refused(
            "The value for the 'position' key in the offset should be a non-negative value"
        )
    if partition is None:
        raise _Refused("Partition objects cannot be null")
    if "filename" not in partition:
        raise _Refused("Partition objects should contain the key 'filename'")


def _mirrored(names: tuple[str, ...], *, numbered: bool, only_zero: bool) -> _Check:
    """MirrorMaker's check: texts under some names, a partition number, a number as offset."""

    def check(partition: _Map | None, offset: _Map) -> None:
        if partition is None:
            raise _Refused("Source partitions may not be null")
        for name in names:
            _check_text(partition, name)
        if numbered:
            _check_partition(partition)
        _check_offset(partition, offset, only_zero=only_zero)

    return check


def _check_text(partition: _Map, name: str) -> None:
    shown = f"Source partition {_text(partition)}"
    if name not in partition:
        raise _Refused(f"{shown} is missing the '{name}' key, which is required")
    if not isinstance(partition[name], str):
        _refuse_value(shown, partition, name, ", which must be a string")


def _check_partition(partition: _Map) -> None:
    shown = f"Source partition {_text(partition)}"
    if "partition" not in partition:
        raise _Refused(f"{shown} is missing the 'partition' key, which is required")
    number = partition["partition"]
    if not _is_integer(number) or number >= 2**31:
        _refuse_value(shown, partition, "partition", ", which must be an integer")
    if narrow_int(number) < 0:
        _refuse_value(shown, partition, "partition", ", which cannot be negative")


def _check_offset(partition: _Map, offset: _Map, *, only_zero: bool) -> None:
    shown = f"Source offset {_text(offset)} for source partition {_text(partition)}"
    if "offset" not in offset:
        raise _Refused(f"{shown} is missing the 'offset' key, which is required")
    number = offset["offset"]
    if not _is_integer(number):
        _refuse_value(shown, offset, "offset", ", which must be an integer")
    if only_zero and number != 0:
        _refuse_value(shown, offset, "offset", "; the only accepted value is 0")
    if not only_zero and number < 0:
        _refuse_value(shown, offset, "offset", ", which cannot be negative")


def _refuse_value(shown: str, values: _Map, name: str, why: str) -> None:
    value = value_text(values[name])
    raise _Refused(f"{shown} has an invalid value {value} for the '{name}' key{why}")


def _is_integer(value: Any) -> bool:
    """Connect's converter makes a Long of every integer; what is larger never gets this far."""
    return isinstance(value, int) and not isinstance(value, bool)


def _text(values: _Map) -> str:
    return value_text({name: values[name] for name in hash_map_order(values)})


_MIRRORS = {
    "MirrorSourceConnector": _mirrored(("cluster", "topic"), numbered=True, only_zero=False),
    "MirrorHeartbeatConnector": _mirrored(
        ("sourceClusterAlias", "targetClusterAlias"), numbered=False, only_zero=True
    ),
    "MirrorCheckpointConnector": _mirrored(("group", "topic"), numbered=True, only_zero=True),
}

_HOOKS: Mapping[str, Hook] = {
    "accepts": accepts,
    "declines": declines,
    "raises UnsupportedOperationException": unsupported,
    "as FileStreamSourceConnector": _file_stream_source,
    **{f"as {name}": partial(_checked, check) for name, check in _MIRRORS.items()},
}
"""Words that need no further reading."""

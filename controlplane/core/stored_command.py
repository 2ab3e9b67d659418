"""Commands as plain data, as the command topic returns them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.core.commands import AnyCommand


def as_stored(command: AnyCommand) -> AnyCommand:
    """Return a command whose lists are tuples and whose mappings are dicts at every level.

    Raises:
        TypeError, AttributeError, RecursionError, ValidationError: it holds what cannot be data.
    """
    built_in = _in_lists(msgspec.to_builtins(command, enc_hook=_dict_of))
    return msgspec.convert(built_in, type(command))  # decoding the union would be slower


def _in_lists(built_in: Any) -> Any:
    """Replace tuples by lists at every level, because a log returns no tuples."""
    if isinstance(built_in, dict):
        return {key: _in_lists(value) for key, value in built_in.items()}
    if isinstance(built_in, list | tuple):
        return [_in_lists(value) for value in built_in]
    return built_in


def _dict_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no data")

"""The connector classes that the workers of every scenario know, beside Kafka's own."""

from functools import cache

import msgspec

from controlplane.core.plugins import Plugins
from controlplane.plugins import catalogued

_CLASSES = {"JdbcSource": "source", "JdbcSink": "sink"}

_HOOK = (
    "by the config key 'hook': accepts accepts, unsupported raises UnsupportedOperationException, "
    "refuses raises ConnectException('No such table')"
)
"""Answers of their `alterOffsets`, by a key of the config; without the key they are unknown."""


@cache
def plugins() -> Plugins:
    """The same for all workers of all scenarios."""
    classes = [{"class": one, "type": of, "alter_offsets": _HOOK} for one, of in _CLASSES.items()]
    return catalogued(msgspec.json.encode(classes))

"""Finds the connector that a record's key belongs to, as a worker reads it.

A worker reads keys leniently. `task-c-+0--` is task 0 of `c`. In the key of an active topic
(`status-topic-t:connector-c`), any ten characters may replace `connector-`.
"""

from collections.abc import Callable

from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics

ANY_CONFIG = b'{"properties":{},"tasks":0,"task-count":0,"state":"STARTED"}'
"""Value that is valid for every kind of key with a connector's name, so that the key decides."""


def owner(topic: str, key: bytes | None, topics: Topics, profile: Profile) -> str | None:
    """Connector of a record; None: it has none, or no worker reads it."""
    if topic == topics.commands:
        return None
    if topic == topics.config:
        return getattr(decode_config(key, ANY_CONFIG, profile), "connector", None)
    if topic == topics.status:
        return getattr(decode_status(key, None, profile), "connector", None)
    return getattr(decode_partition(key, profile), "connector", None)


def key_filter(name: str) -> Callable[[bytes | None], bool]:
    """Return a quick test that is True for every key of a connector, and False for most others.

    A key has the bytes of the name, unless its JSON has escapes (with a backslash) or another
    encoding. UTF-16 and UTF-32 have NUL bytes; Jackson reads overlong UTF-8.
    """
    if not name.isascii():
        return lambda _: True
    plain = name.encode()
    return lambda key: (
        key is not None and (plain in key or b"\\" in key or b"\0" in key or not key.isascii())
    )

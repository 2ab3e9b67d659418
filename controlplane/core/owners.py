"""Whose record it is: the connector that a worker finds in a key.

It reads more into keys than stands there: `task-c-+0--` is task 0 of `c`, and whatever eleven
characters come before the name in the key of an active topic, they are skipped.
"""

from controlplane.core.codec.config import decode_config
from controlplane.core.codec.offsets import decode_partition
from controlplane.core.codec.status import decode_status
from controlplane.core.profiles import Profile
from controlplane.core.state import Topics

ANY_CONFIG = b'{"properties":{},"tasks":0,"task-count":0,"state":"STARTED"}'
"""A value that suits every key of the config topic: whose record it is does not depend on it."""


def owner(topic: str, key: bytes | None, topics: Topics, profile: Profile) -> str | None:
    """The connector that a record is about; None: about none, or of nobody's reading."""
    if topic == topics.commands:
        return None
    if topic == topics.config:
        return getattr(decode_config(key, ANY_CONFIG, profile), "connector", None)
    if topic == topics.status:
        return getattr(decode_status(key, None, profile), "connector", None)
    return getattr(decode_partition(key, profile), "connector", None)

"""Roles, and the role that each request needs."""

from collections.abc import Mapping
from enum import IntEnum

from controlplane.rest.endpoints.query_parameters import CONNECTOR, EndpointKey
from controlplane.rest.endpoints.router import match


class Role(IntEnum):
    """Permission of a caller; each role includes the lower ones."""

    VIEW = 1
    """Read everything, including secrets in configs: REST answers as Connect does."""
    OPERATE = 2
    """Control connectors: pause, resume, stop, restart."""
    ADMINISTER = 3
    """Change configs, offsets, topics and loggers; delete; undo."""

    @classmethod
    def of(cls, name: str) -> "Role":
        """Return the role with a name, in upper or lower case. Raises `KeyError`."""
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


NEEDS: Mapping[EndpointKey, Role] = {
    ("PUT", (*CONNECTOR, "pause")): Role.OPERATE,
    ("PUT", (*CONNECTOR, "resume")): Role.OPERATE,
    ("PUT", (*CONNECTOR, "stop")): Role.OPERATE,
    ("POST", (*CONNECTOR, "restart")): Role.OPERATE,
    ("POST", (*CONNECTOR, "tasks", "{}", "restart")): Role.OPERATE,
    ("PUT", ("connector-plugins", "{}", "config", "validate")): Role.VIEW,
}
"""Roles that do not follow from the method alone.

A dry run needs the role of its command, because it shows the records that would be written.
"""

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""


def needed(method: str, path: tuple[str, ...]) -> Role:
    """Return the role that a request needs, from its method and decoded path segments.

    Without an entry in `NEEDS`, reading needs `VIEW` and all else needs `ADMINISTER`.
    """
    default = Role.VIEW if method in READING else Role.ADMINISTER
    matched = match(path)
    return default if matched is None else NEEDS.get((method, matched.template), default)

"""Who may do what: roles, and one table that tells which of them a request needs."""

from enum import IntEnum
from typing import NamedTuple

from controlplane.rest.paths import matches


class Role(IntEnum):
    """What somebody may do; each may also do what those before it may."""

    VIEW = 1
    """Look at everything, configs with what stands in them included: REST answers as Connect."""
    OPERATE = 2
    """Start and stop what is there: pause, resume, stop, restart."""
    ADMINISTER = 3
    """Change what is there: configs, offsets, topics, loggers; delete, and undo."""

    @classmethod
    def of(cls, name: str) -> "Role":
        """The role of a name, in any case. Raises `KeyError`."""
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


class Need(NamedTuple):
    """A method, a path template (`{}` takes any one segment), and the role it takes."""

    method: str
    path: str
    role: Role


NEEDS: tuple[Need, ...] = (
    Need("PUT", "connectors/{}/pause", Role.OPERATE),
    Need("PUT", "connectors/{}/resume", Role.OPERATE),
    Need("PUT", "connectors/{}/stop", Role.OPERATE),
    Need("POST", "connectors/{}/restart", Role.OPERATE),
    Need("POST", "connectors/{}/tasks/{}/restart", Role.OPERATE),
    Need("PUT", "connector-plugins/{}/config/validate", Role.VIEW),
)
"""What does not follow from the method alone. A dry run needs what the real thing needs: it shows
what would be written, and it may ask a connector's hook."""

READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""


def needed(method: str, path: tuple[str, ...]) -> Role:
    """The role that a request takes, by its method and the decoded segments of its path.

    What the table does not name is for those who may do everything, unless it only reads.
    """
    asked = "GET" if method == "HEAD" else method
    for need in NEEDS:
        if need.method == asked and matches(tuple(need.path.split("/")), path):
            return need.role
    return Role.VIEW if method in READING else Role.ADMINISTER

"""Requests about the levels of loggers: `/admin/loggers` (KIP-495, KIP-976)."""

from controlplane.core.decide.topics import level_named
from controlplane.core.plan import Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.rest import bodies
from controlplane.rest.errors import refused


def wanted(body: bytes | None, profile: Profile) -> str:
    """Return the level in a request to `PUT /admin/loggers/{l}`, one of `LEVELS`.

    Raises:
        RestError: the body names no level.
    """
    level = level_named(bodies.level(body, profile), profile)
    if isinstance(level, Rejected):
        raise refused(level)
    return level


def for_cluster(query: dict[str, list[str]], profile: Profile) -> bool:
    """Return True if `?scope=cluster` selects the loggers of all workers; then it is a command."""
    return profile.logger_levels and query.get("scope", [""])[0].lower() == "cluster"

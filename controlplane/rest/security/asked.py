"""What can be told of a request by itself, before anybody answers it."""

from typing import NamedTuple

from starlette.types import Scope

from controlplane.core.profiles import KIP, Profile, UnknownRelease
from controlplane.rest import routes
from controlplane.rest.errors import RestError
from controlplane.rest.paths import parse_target
from controlplane.rest.requests import Request, read_request

_LENIENT = Profile.of(KIP)
"""Takes every path apart that any release takes."""


class Asked(NamedTuple):
    """A request, and the release as which it is to be answered."""

    request: Request
    path: tuple[str, ...]
    """Decoded, without mount and dialect; of a path that cannot be taken apart, one that nothing
    answers to."""
    profile: Profile
    compat: bool
    """Whether the request speaks to a release of Kafka, and not to us."""

    def check_routed(self) -> None:
        """Refuse what a worker refuses before any of its filters.

        Raises:
            RestError: with what it says.
        """
        routes.routed(self.request, self.profile)


_ASKED = "controlplane.asked"
"""Where a scope keeps what was asked in it, and of whom: each who stands in the way looks."""


def asked(scope: Scope, dialect: Profile) -> Asked:
    """What a request asks, of one who speaks as `dialect` where nobody says otherwise."""
    of = scope.get("root_path", ""), dialect.release
    if _ASKED not in scope or scope[_ASKED][0] != of:
        request = read_request(scope)
        profile = _profile(request.profile, dialect)
        path = _path(request.target, profile)
        scope[_ASKED] = of, Asked(request, path, profile, request.compat)
    found: Asked = scope[_ASKED][1]
    return found


def _path(target: str, profile: Profile) -> tuple[str, ...]:
    try:
        return parse_target(target, profile).segments
    except RestError:
        return ("",)


def _profile(release: str | None, dialect: Profile) -> Profile:
    try:
        return dialect if release is None else Profile.of(release)
    except UnknownRelease:
        return dialect

"""A request with its target parsed and its release resolved, before it is answered."""

from typing import NamedTuple

from starlette.types import Scope

from controlplane.core.releases.profiles import Profile, UnknownRelease
from controlplane.rest.endpoints.router import route
from controlplane.rest.errors import RestError
from controlplane.rest.http.request_reader import read_request
from controlplane.rest.http.request_targets import RequestTarget, parse_target
from controlplane.rest.requests import Request


class RequestInfo(NamedTuple):
    """A request, its parsed target, and the release that answers it."""

    request: Request
    parsed: RequestTarget | RestError
    """The target, or the error by which the release's server refuses it."""
    profile: Profile
    compat: bool
    """True if the request addresses a Kafka release and no endpoint of this project."""

    @property
    def path(self) -> tuple[str, ...]:
        """Decoded path without mount and dialect; a refused path matches no endpoint."""
        return _NOWHERE if isinstance(self.parsed, RestError) else self.parsed.segments

    @property
    def target(self) -> RequestTarget:
        """The parsed target.

        Raises:
            RestError: the release's server refuses the target.
        """
        if isinstance(self.parsed, RestError):
            raise self.parsed
        return self.parsed

    def check_routed(self) -> None:
        """Refuse a request that a worker refuses before its filters run.

        Raises:
            RestError: the worker's refusal.
        """
        route(self.request, self.target, self.profile)


_NOWHERE = ("",)

_CACHED = "controlplane.request_info"
"""Scope key under which the parsed request is cached for all layers."""


def request_info(scope: Scope, dialect: Profile) -> RequestInfo:
    """Parse the request of a scope once. `dialect` is the default release."""
    context = scope.get("root_path", ""), dialect.release
    if _CACHED not in scope or scope[_CACHED][0] != context:
        request = read_request(scope)
        profile = _profile(request.profile, dialect)
        parsed = _parsed(request.target, profile)
        scope[_CACHED] = context, RequestInfo(request, parsed, profile, request.compat)
    info: RequestInfo = scope[_CACHED][1]
    return info


def _parsed(target: str, profile: Profile) -> RequestTarget | RestError:
    try:
        return parse_target(target, profile)
    except RestError as refusal:
        return refusal


def _profile(release: str | None, dialect: Profile) -> Profile:
    try:
        return dialect if release is None else Profile.of(release)
    except UnknownRelease:
        return dialect

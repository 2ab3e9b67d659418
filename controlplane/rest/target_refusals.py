"""Refusals of request targets: the malformed paths that a server refuses differ by release."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from controlplane.core.releases.profiles import Profile
from controlplane.rest.errors import BadRequest
from controlplane.rest.jetty_errors import (
    BAD_MESSAGE,
    BAD_URI,
    BadMessage,
    BadTarget,
    ServerTarget,
    UnreadableRequest,
)

_BEGINNINGS = ("/", "*")
"""First characters of a target: a path, or `*` for the whole server."""

_NO_ESCAPE = re.compile(r"%(?![0-9a-f]{2}).{0,2}", re.IGNORECASE)


def _refuse_unreadable(path: str, _: Profile) -> None:
    """Refuse a relative target or a malformed escape, as this project does at its own endpoints."""
    if not path.startswith(_BEGINNINGS):
        raise BadRequest("The target of a request must be a path that begins with a slash")
    wrong = _NO_ESCAPE.search(path)
    if wrong is not None:
        raise BadRequest(
            f"The path holds {wrong[0]!a}, which is no escape: write a percent sign as %25"
        )


_MALFORMED = re.compile(r"%(?![0-9a-f]{2}|u[0-9a-f]{4})|\ufffd", re.IGNORECASE)
"""Malformed escapes, and bytes that are not UTF-8."""

_PATH_PARAMETERS = re.compile(r"/(\.|%2e){1,2};[^/]*(?=/)", re.IGNORECASE)
"""`.` or `..` with parameters."""


def _refuse_malformed(path: str, profile: Profile) -> None:
    """Refuse the paths that Jetty 9 and Jersey refuse."""
    jetty = profile.jetty
    if path == "*":
        raise ServerTarget(profile, uri=path)
    if not path.startswith("/"):
        raise BadMessage(profile, jetty.relative if path else "Bad URI")
    if _MALFORMED.search(path) or ("%00" in path and not jetty.takes_nul):
        raise BadMessage(profile)
    if jetty.path_parameters and _PATH_PARAMETERS.search(path):
        raise BadMessage(profile, jetty.path_parameters)
    if _leaves_root(path):
        raise BadMessage(profile, jetty.above_root)
    if "{" in path or "}" in path:
        raise UnreadableRequest(profile, path)


def _leaves_root(path: str) -> bool:
    """Return True if `..` segments lead above the root."""
    depth = 0
    for part in path.split("/")[1:]:
        name = unquote(part.partition(";")[0])
        depth += {"..": -1, ".": 0, "": 0}.get(name, 1)
        if depth < 0:
            return True
    return False


_UTF_16 = re.compile(r"%u[0-9a-f]{4}", re.IGNORECASE)

# The order matters: the server lists several reasons in this order.
_AMBIGUITIES: tuple[tuple[re.Pattern[str] | None, str], ...] = (
    (re.compile(r"/(?=\.*+%2e)(%2e|\.)*+(?=/|$)", re.IGNORECASE), "Ambiguous URI path segment"),
    (re.compile(r"//"), "Ambiguous URI empty segment"),
    (re.compile(r"%2f", re.IGNORECASE), "Ambiguous URI path separator"),
    (_PATH_PARAMETERS, "Ambiguous URI path parameter"),
    (re.compile(r"%25"), "Ambiguous URI path encoding"),
    (_UTF_16, "UTF-16 encoding"),
    (None, "Bad UTF-8 encoding"),
    (re.compile(r"\\|%5c|%[01][0-9a-f]|%7f", re.IGNORECASE), "Suspicious Path Character"),
    (re.compile(r"[^\x21-\x7e]|[`\"<>^|\\\[\]{}]"), "Illegal Path Character"),
)
"""Patterns of a refused path, and the reasons. Only `_PATH_PARAMETERS` sees the parameters of
segments."""


def _refuse_ambiguous(path: str, profile: Profile) -> None:
    """Refuse the paths that Jetty 12 refuses."""
    if not path.startswith("/"):
        if path in ("", "*"):
            raise ServerTarget(profile, "Bad URI path", path, based=True)
        raise BadTarget(profile, uri=f"http:{path}")
    names = "/".join(part.partition(";")[0] for part in path.split("/"))
    if _NO_ESCAPE.search(_UTF_16.sub("", path)) or "%00" in names or _leaves_root(path):
        raise BadTarget(profile, uri=BAD_MESSAGE)
    reasons = [reason for pattern, reason in _AMBIGUITIES if _is_ambiguous(pattern, path, names)]
    if reasons:
        raise BadTarget(profile, ", ".join(reasons), BAD_URI)


def _is_ambiguous(pattern: re.Pattern[str] | None, path: str, names: str) -> bool:
    """Return True if a path matches; the pattern None finds escapes that are not UTF-8."""
    if pattern is None:
        return "\ufffd" in unquote(names.encode("ascii", "ignore").decode())
    return pattern.search(path if pattern is _PATH_PARAMETERS else names) is not None


_REFUSING: Mapping[str, Callable[[str, Profile], None]] = {
    "jetty 9": _refuse_malformed,
    "jetty 12": _refuse_ambiguous,
    "ours": _refuse_unreadable,
}


def check_path(path: str, profile: Profile) -> None:
    """Refuse a raw path as the server of a release does.

    Raises:
        ServerRefusal: this release's server refuses the path.
        BadRequest: this project refuses it.
    """
    _REFUSING[profile.rest_server](path, profile)

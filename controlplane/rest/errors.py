"""The only place that knows HTTP status codes, and how Connect words what it refuses.

Sorted by whose fault it is: `NotFound` and `BadRequest` are the asker's, `Failed` is the worker's.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from controlplane.core.plan import Reason, Rejected

OK = 200
CREATED = 201
ACCEPTED = 202
NO_CONTENT = 204
BAD_REQUEST = 400
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
NOT_ACCEPTABLE = 406
REQUEST_TIMEOUT = 408
CONFLICT = 409
TOO_LARGE = 413
URI_TOO_LONG = 414
UNSUPPORTED_MEDIA_TYPE = 415
HEADERS_TOO_LARGE = 431
INTERNAL_ERROR = 500
UNAVAILABLE = 503

JSON = "application/json"
HTML = "text/html;charset=iso-8859-1"
TEXT = "text/plain"
EVENTS = "text/event-stream"


NOTICE = "x-controlplane-notice"
"""A header of ours: how the question was understood and whether the log is followed, in a sentence
or a few, split by `; `."""

NOTICES_SHOWN = 5
"""Notices that are told; the rest is counted: a header has room for some lines."""


NOT_KEPT = MappingProxyType({"cache-control": "must-revalidate,no-cache,no-store"})
"""A header of pages that Jetty writes about errors."""


class Answer(NamedTuple):
    """What goes back to the asker. `body` is a JSON value, or text where the type is HTML or text.

    Without a `content_type` the header is left out, as Connect does before a route has matched.
    """

    status: int
    body: Any
    content_type: str | None = JSON
    headers: Mapping[str, str] = MappingProxyType({})
    stream: AsyncIterator[bytes] | None = None
    """The body, where it comes bit by bit and may never end."""
    pure: bool = False
    """Whether it depends on nothing but the request and what is known now."""

    def noticed(self, notices: Sequence[str]) -> "Answer":
        """The same answer, telling what is to be noticed about it."""
        if not notices:
            return self
        more = len(notices) - NOTICES_SHOWN
        told = [*notices[:NOTICES_SHOWN], *([f"and {more} more such notices"] if more > 0 else [])]
        known = [self.headers[NOTICE]] if NOTICE in self.headers else []
        # Somebody may have put line breaks around the release, or a strange letter into the name of
        # a host: a header has none.
        line = " ".join("; ".join(told).split()).encode("unicode_escape").decode()
        return self._replace(headers={**self.headers, NOTICE: "; ".join([*known, line])})


def allowed(methods: Sequence[str], accepted: str) -> Answer:
    """What an endpoint says when asked by which methods it can be asked (`OPTIONS`).

    Whoever accepts no text gets an empty body of the first type that he names.
    """
    listed = {"allow": ",".join(methods)}
    wanted = [one.partition(";")[0].strip().lower() for one in accepted.split(",")]
    if not {"", TEXT, "text/*", "*/*"}.isdisjoint(wanted):
        return Answer(OK, ", ".join(methods), TEXT, listed)
    return Answer(OK, "", wanted[0], listed)


class RestError(Exception):
    """A request that is answered with an error; the message is the one on the wire."""

    status = INTERNAL_ERROR
    content_type: str | None = JSON

    def answer(self) -> Answer:
        """The error as Connect writes it (`ErrorMessage`)."""
        message = str(self) if self.args else None
        body = {"error_code": self.status, "message": message}
        return Answer(self.status, body, self.content_type)


class NotFound(RestError):
    """There is no such connector, task or status."""

    status = NOT_FOUND


class NoSuchPath(RestError):
    """No route has this path, in this release."""

    status = NOT_FOUND
    content_type = None

    def __init__(self) -> None:
        super().__init__("HTTP 404 Not Found")


class NoSuchMethod(RestError):
    """The route is there, but not for this method."""

    status = METHOD_NOT_ALLOWED
    content_type = None

    def __init__(self) -> None:
        super().__init__("HTTP 405 Method Not Allowed")


class OnlyRead(RestError):
    """Something would be changed where the log is only read."""

    status = METHOD_NOT_ALLOWED

    def __init__(self, *, plans: bool) -> None:
        """`plans`: a dry run would have been answered."""
        super().__init__(
            "This service only reads its log and changes nothing: ask a worker of the cluster, or "
            "whoever writes the log"
            + ("; dry_run=true tells what would be written" if plans else "")
        )


class NotAcceptable(RestError):
    """The asker wants something that is no JSON."""

    status = NOT_ACCEPTABLE
    content_type = None

    def __init__(self) -> None:
        super().__init__("HTTP 406 Not Acceptable")


class UnsupportedMediaType(RestError):
    """The asker sends something that is no JSON."""

    status = UNSUPPORTED_MEDIA_TYPE
    content_type: str | None = None

    def __init__(self) -> None:
        super().__init__("HTTP 415 Unsupported Media Type")


class MissingMediaType(UnsupportedMediaType):
    """A body comes and nobody says what it is: by then a method has matched."""

    content_type = JSON


class BadRequest(RestError):
    """What is asked cannot be done as it is asked, whatever the state."""

    status = BAD_REQUEST


class BadQuestion(RestError):
    """One of our own query parameters (`as_of`, `profile`) cannot be understood."""

    status = BAD_REQUEST


class Failed(RestError):
    """The worker fails at this."""

    status = INTERNAL_ERROR


class Forbidden(RestError):
    """The worker's settings do not allow it."""

    status = FORBIDDEN


class Unauthorized(RestError):
    """Nobody knows who asks. `challenges` say how to tell it (`WWW-Authenticate`)."""

    status = UNAUTHORIZED

    def __init__(self, message: str, challenges: Sequence[str]) -> None:
        super().__init__(message)
        self.challenges = challenges

    def answer(self) -> Answer:
        """With the challenges, without which a client need not try again."""
        return super().answer()._replace(headers={"www-authenticate": ", ".join(self.challenges)})


def unauthorized_by_extension(method: str) -> Answer:
    """The same as Connect's own extension for basic authentication says it: text called JSON.

    Source: `JaasBasicAuthFilter`.
    """
    told_as = TEXT if method == "OPTIONS" else JSON
    return Answer(UNAUTHORIZED, "User cannot access the resource.", told_as)


class Conflict(RestError):
    """It is there already, or somebody else is changing it just now."""

    status = CONFLICT


class NotReady(RestError):
    """The log has not been read to its end yet, or cannot be reached."""

    status = UNAVAILABLE


class ShuttingDown(RestError):
    """The service ends before the request is done. A worker answers 500 to that (`compat`)."""

    def __init__(self, *, compat: bool) -> None:
        super().__init__("Worker is shutting down")
        self.status = INTERNAL_ERROR if compat else UNAVAILABLE


class _Ending(RestError):
    """What has been sent is left unread, so the connection is of no more use."""

    def answer(self) -> Answer:
        return super().answer()._replace(headers={"connection": "close"})


class BodyTooLarge(_Ending):
    """The body has more bytes than are read."""

    status = TOO_LARGE


class BodyTooSlow(_Ending):
    """The body does not come in time."""

    status = REQUEST_TIMEOUT


class BodyCutOff(_Ending):
    """The client has gone away in the middle of a body: there is nobody to read this."""

    status = BAD_REQUEST


class HeadTooLarge(_Ending):
    """The target or the headers of a request are longer than they may be."""

    status = HEADERS_TOO_LARGE


class TargetTooLong(HeadTooLarge):
    """The target alone is too long."""

    status = URI_TOO_LONG


class TooBusy(RestError):
    """As many requests are being answered as may be."""

    status = UNAVAILABLE


_REFUSALS: Mapping[Reason, type[RestError]] = MappingProxyType(
    {
        Reason.NO_SUCH_CONNECTOR: NotFound,
        Reason.NO_SUCH_TASK: NotFound,
        Reason.NO_SUCH_LOGGER_LEVEL: NotFound,
        Reason.NO_STATUS: NotFound,
        Reason.ALREADY_EXISTS: Conflict,
        Reason.INVALID: BadRequest,
        Reason.NOT_STOPPED: BadRequest,
        Reason.FORBIDDEN: Forbidden,
        Reason.CONFLICT: Conflict,
        Reason.FAILED: Failed,
    }
)


def refused(rejected: Rejected) -> RestError:
    """What a refusal is on the wire. A command that a release has not got has no path there."""
    if rejected.reason is Reason.NOT_OFFERED:
        return NoSuchPath()
    error = _REFUSALS[rejected.reason]
    return error() if rejected.text is None else error(rejected.text)

"""HTTP status codes, answers, and errors in Connect's words.

Other modules use these names of status codes. Two answers have their codes elsewhere: 499 (`app`),
and 503 for too many connections (`http.connections`).

Errors are sorted by fault: `NotFound` and `BadRequest` are the client's, `RequestFailed` is the
worker's.
"""

import json
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

_SUCCESSES = range(200, 300)

JSON = "application/json"
HTML = "text/html;charset=iso-8859-1"
TEXT = "text/plain"
EVENTS = "text/event-stream"


NOTICE = "x-controlplane-notice"
"""Response header of this project: notices about the request and the log, separated by `; `."""

NOTICES_SHOWN = 5
"""Maximum number of notices in the header; the rest is only counted, to bound the header's
length."""


NO_STORE = MappingProxyType({"cache-control": "must-revalidate,no-cache,no-store"})
"""Cache header of Jetty's error pages."""


class Answer(NamedTuple):
    """Response to the client.

    `body` is a JSON value, a text to send as it is, or the bytes of a worker's answer.
    Without a `content_type` the header is left out, as Connect does before a route has matched.
    """

    status: int
    body: Any
    content_type: str | None = JSON
    headers: Mapping[str, str] = MappingProxyType({})
    stream: AsyncIterator[bytes] | None = None
    """The body as a stream of chunks that may never end."""
    pure: bool = False
    """True if the answer depends only on the request and the current state."""
    notices: tuple[str, ...] = ()
    """All notices; the header lists the first `NOTICES_SHOWN`, and counts the rest."""

    def with_notices(self, notices: Sequence[str]) -> "Answer":
        """Return the same answer with notices added to its header.

        If the header is full, earlier notices give way: a later one may report an outage.
        """
        if not notices:
            return self
        added = [notice for notice in notices if notice not in self.notices]
        room = max(NOTICES_SHOWN - len(added), 0)
        ordered = (*self.notices[:room], *added, *self.notices[room:])
        unlisted = len(ordered) - NOTICES_SHOWN
        shown = [
            *ordered[:NOTICES_SHOWN],
            *([f"and {unlisted} more notices"] if unlisted > 0 else []),
        ]
        # A notice may quote a release with line breaks, or a host name with non-ASCII letters.
        # Neither is allowed in a header.
        line = " ".join("; ".join(shown).split()).encode("unicode_escape").decode()
        return self._replace(headers={**self.headers, NOTICE: line}, notices=ordered)


class WorkerAnswer(NamedTuple):
    """Answer of a Connect worker to a request that this service has sent to it."""

    status: int
    body: bytes
    content_type: str | None = JSON
    location: str | None = None

    @property
    def is_success(self) -> bool:
        """True if the worker has done what was requested; a redirect has done nothing."""
        return self.status in _SUCCESSES

    @property
    def is_refusal(self) -> bool:
        """True if the worker declares the request wrong."""
        return BAD_REQUEST <= self.status < INTERNAL_ERROR

    @property
    def is_missing(self) -> bool:
        """True if the worker knows no such connector, task or path."""
        return self.status == NOT_FOUND

    @property
    def is_unsupported(self) -> bool:
        """True if the worker's release has the path, but not for this method."""
        return self.status == METHOD_NOT_ALLOWED

    def json(self) -> Any:
        """Body as JSON; None if it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):  # also a document with too many levels
            return None

    @property
    def message(self) -> str | None:
        """Message of an error; None if the answer has no message."""
        body = self.json()
        message = body.get("message") if isinstance(body, dict) else None
        return None if message is None else str(message)

    def passed_on(self, base: str) -> Answer:
        """The same answer for the client. `Location` begins with `base`, our own address."""
        headers = {} if self.location is None else {"location": base + _path_of(self.location)}
        return Answer(self.status, self.body, self.content_type, headers)


def _path_of(location: str) -> str:
    """Path of an absolute URL, as written."""
    _, scheme, behind = location.partition("://")
    return location if not scheme else "/" + behind.partition("/")[2]


def allowed(methods: Sequence[str], accepted: str) -> Answer:
    """Return the answer to `OPTIONS`: the methods of an endpoint.

    A client that accepts no text gets an empty body of the first type that it names.
    """
    header = {"allow": ",".join(methods)}
    types = [media.partition(";")[0].strip().lower() for media in accepted.split(",")]
    if not {"", TEXT, "text/*", "*/*"}.isdisjoint(types):
        return Answer(OK, ", ".join(methods), TEXT, header)
    return Answer(OK, "", types[0], header)


class RestError(Exception):
    """An error that is sent to the client; the answer has its message verbatim."""

    status = INTERNAL_ERROR
    content_type: str | None = JSON

    def answer(self) -> Answer:
        """Return the error as Connect writes it (`ErrorMessage`)."""
        message = str(self) if self.args else None
        body = {"error_code": self.status, "message": message}
        return Answer(self.status, body, self.content_type)


class NotFound(RestError):
    """The connector, task, status, plugin or logger does not exist."""

    status = NOT_FOUND


class NoSuchPath(RestError):
    """The release has no route with this path."""

    status = NOT_FOUND
    content_type = None

    def __init__(self) -> None:
        super().__init__("HTTP 404 Not Found")


class NoSuchMethod(RestError):
    """The route exists, but not for this method."""

    status = METHOD_NOT_ALLOWED
    content_type = None

    def __init__(self) -> None:
        super().__init__("HTTP 405 Method Not Allowed")


class ReadOnlyRefusal(RestError):
    """A change was requested from a read-only service."""

    status = METHOD_NOT_ALLOWED

    def __init__(self, *, plans: bool) -> None:
        """`plans`: True if the service answers dry runs."""
        super().__init__(
            "This service only reads its log: "
            "send the change to a worker, or to the service that writes the log"
            + (". dry_run=true shows what would be written" if plans else "")
        )


class NotAcceptable(RestError):
    """The client does not accept the media type of the answer, which is mostly JSON."""

    status = NOT_ACCEPTABLE
    content_type = None

    def __init__(self) -> None:
        super().__init__("HTTP 406 Not Acceptable")


class UnsupportedMediaType(RestError):
    """The client sends a body that is not JSON."""

    status = UNSUPPORTED_MEDIA_TYPE
    content_type: str | None = None

    def __init__(self) -> None:
        super().__init__("HTTP 415 Unsupported Media Type")


class MissingMediaType(UnsupportedMediaType):
    """A body has no `Content-Type`, or a wildcard; detected after a method has matched."""

    content_type = JSON


class BadRequest(RestError):
    """The request is invalid, or the connector is not stopped."""

    status = BAD_REQUEST


class InvalidParameter(RestError):
    """A query parameter is unknown, missing, repeated or invalid.

    The error also stands for an empty `Idempotency-Key`, or a `Last-Event-ID` that is no id.
    """

    status = BAD_REQUEST


class RequestFailed(RestError):
    """The worker failed to carry out the request."""

    status = INTERNAL_ERROR


class Forbidden(RestError):
    """The request is not allowed: by a setting, the caller's role, `Host`, origin or signature."""

    status = FORBIDDEN


class Unauthorized(RestError):
    """The caller is unknown. `challenges` lists the accepted schemes (`WWW-Authenticate`)."""

    status = UNAUTHORIZED

    def __init__(self, message: str, challenges: Sequence[str]) -> None:
        super().__init__(message)
        self.challenges = challenges

    def answer(self) -> Answer:
        """Add the challenges; without them a client does not send its credentials."""
        return super().answer()._replace(headers={"www-authenticate": ", ".join(self.challenges)})


def unauthorized_by_extension(method: str) -> Answer:
    """Return the refusal of Connect's basic authentication extension.

    The body is text that is labelled JSON, except for `OPTIONS`. Source: `JaasBasicAuthFilter`.
    """
    label = TEXT if method == "OPTIONS" else JSON
    return Answer(UNAUTHORIZED, "User cannot access the resource.", label)


class Conflict(RestError):
    """The connector exists already, or another change is under way."""

    status = CONFLICT


class NotReady(RestError):
    """The log has not been read to its end yet, or cannot be reached.

    The error also stands for a missing session key, and for too many waiting commands or watched
    releases.
    """

    status = UNAVAILABLE


class ShuttingDown(RestError):
    """The service ends before the request is done; a worker answers 500 in that case (`compat`)."""

    def __init__(self, *, compat: bool) -> None:
        super().__init__("Worker is shutting down")
        self.status = INTERNAL_ERROR if compat else UNAVAILABLE


class _ClosingError(RestError):
    """Base of errors that may leave a request unread, so that the connection must be closed."""

    def answer(self) -> Answer:
        return super().answer()._replace(headers={"connection": "close"})


class BodyTooLarge(_ClosingError):
    """The body exceeds a limit: of bytes, of values, or of transforms and predicates."""

    status = TOO_LARGE


class BodyTooSlow(_ClosingError):
    """The body did not arrive in time."""

    status = REQUEST_TIMEOUT


class BodyCutOff(_ClosingError):
    """The client disconnected in the middle of a body; this answer is never read."""

    status = BAD_REQUEST


class HeadTooLarge(_ClosingError):
    """The target and headers of a request exceed their limit."""

    status = HEADERS_TOO_LARGE


class TargetTooLong(HeadTooLarge):
    """The target alone exceeds the limit."""

    status = URI_TOO_LONG


class TooBusy(RestError):
    """A limit of requests, large bodies or passwords is reached, or a body's process failed."""

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
        Reason.FAILED: RequestFailed,
    }
)


def refused(rejected: Rejected, *, with_cause: bool = False) -> RestError:
    """Map a rejected command to its REST error; an unsupported command is an unknown path.

    `with_cause`: the message has the cause that a worker only logs.
    """
    if rejected.reason is Reason.NOT_OFFERED:
        return NoSuchPath()
    error = _REFUSALS[rejected.reason]
    if with_cause and rejected.detail:
        return error(rejected.sentence)
    return error() if rejected.text is None else error(rejected.text)

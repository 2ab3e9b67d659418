"""The ASGI application: Connect's read endpoints over a log that is followed.

A plain function of scope, receive and send over one pure function, `reads.answer`. A framework's
router would stand in the way of exact answers: Connect routes on the raw path (a connector's name
may hold a slash), writes errors without `Content-Type` before a route has matched, and its JSON is
Jackson's. Starlette lends what does not: headers and responses. It can be mounted beneath any path
of another ASGI application.

Each endpoint takes two questions of ours, which Connect's clients cannot be asking: `as_of=` (a
moment: `config@57`, a time, a vector of end offsets) and `profile=` (a release). Where a release is
too new to be known, it is answered as the newest that is, and where a vector leaves something open,
it is taken as it is meant; the header `NOTICE` says so. It also says when the log is not followed
just now, so that an answer may be old.
"""

from collections.abc import Mapping, Sequence
from time import perf_counter

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from controlplane.asof import Then
from controlplane.core import javajson
from controlplane.core.moments import UnknownMoment
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile, UnknownRelease, resolve
from controlplane.follower import Follower
from controlplane.logs.log import LogError
from controlplane.observe import Logger, silent
from controlplane.rest.errors import (
    HTML,
    UNAVAILABLE,
    Answer,
    BadQuestion,
    BadTarget,
    Failed,
    NotReady,
    RestError,
    allowed,
)
from controlplane.rest.reads import Reading, answer
from controlplane.rest.requests import METHODS, Request, check, read_request

RETRY_AFTER_S = 1
"""When to ask again while the log cannot be read: it is tried again as often (`Follower`)."""

NOTICE = "x-controlplane-notice"
"""A header of ours: how the question was understood and whether the log is followed, in a sentence
or a few, split by `; `."""

NOTICES_SHOWN = 5
"""Notices that are told; the rest is counted: a header has room for some lines."""

PAGED = ("GET", "HEAD", "POST")
"""Methods for which Jetty 12 writes a page about a path that it refuses."""


class App:
    """Answers read requests from what a `Follower` knows.

    `dialect` is the release as which to answer where the request names none; `plugins` tells the
    types of connectors; `cluster_id` is what `GET /` gives; `tracks_topics` is the worker's
    `topic.tracking.enable`.
    """

    def __init__(  # noqa: PLR0913 - settings, by name only
        self,
        follower: Follower,
        *,
        dialect: Profile,
        plugins: Plugins | None = None,
        cluster_id: str | None = None,
        tracks_topics: bool = True,
        logger: Logger | None = None,
    ) -> None:
        self._follower = follower
        self._dialect = dialect
        self._plugins = plugins or Plugins()
        self._cluster_id = cluster_id
        self._tracks_topics = tracks_topics
        self._logger = logger or silent()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here: only HTTP requests are answered")
        began = perf_counter()
        request = read_request(scope)
        given = await self.answer(request)
        response = _response(given, request.method)
        self._logger.info(
            "request",
            method=request.method,
            target=request.target,
            status=given.status,
            bytes=len(response.body),
            duration_ms=round((perf_counter() - began) * 1_000, 1),
        )
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Answer:
        """The answer to a request. Never raises: a defect of ours is answered as Connect does."""
        given = await self._answer_or_error(request)
        return _noticed(given, (*_on_release(request.profile), *self._on_log()))

    async def _answer_or_error(self, request: Request) -> Answer:
        try:
            return await self._answer(request)
        except BadTarget as error:
            return error.answer() if request.method in PAGED else error.bare()
        except RestError as error:
            return error.answer()
        except LogError as error:
            return NotReady(str(error)).answer()
        except (UnknownMoment, UnknownRelease) as error:
            return BadQuestion(str(error)).answer()
        except Exception as error:  # the one place where a defect becomes a 500
            self._logger.exception("defect", target=request.target)
            return Failed(f"{type(error).__name__}: {error}").answer()

    async def _answer(self, request: Request) -> Answer:
        profile = Profile.of(request.profile) if request.profile is not None else self._dialect
        check(request, profile)
        if request.method == "OPTIONS":
            return allowed(METHODS)
        state, notices = await self._then(request, profile)
        reading = Reading(state, self._plugins, self._cluster_id, tracks_topics=self._tracks_topics)
        given = answer(reading, request.target)
        return _noticed(given, notices)

    async def _then(self, request: Request, profile: Profile) -> Then:
        if request.as_of is None:
            return Then(await self._follower.state(profile))
        return await self._follower.state_at(request.as_of, profile)

    def _on_log(self) -> tuple[str, ...]:
        """What is to be said about the log: that it is not followed just now."""
        failure = self._follower.failure
        if failure is None:
            return ()
        return (f"the log is not followed just now, this is what was known before: {failure}",)


def _on_release(release: str | None) -> tuple[str, ...]:
    """What is to be said about a release that is asked for: that it is too new to be known."""
    try:
        warning = resolve(release).warning if release is not None else None
    except UnknownRelease:
        return ()  # the answer says so itself
    return () if warning is None else (warning,)


def _noticed(given: Answer, notices: Sequence[str]) -> Answer:
    """An answer that tells what is to be noticed about it."""
    if not notices:
        return given
    more = len(notices) - NOTICES_SHOWN
    told = [*notices[:NOTICES_SHOWN], *([f"and {more} more such notices"] if more > 0 else [])]
    known = [given.headers[NOTICE]] if NOTICE in given.headers else []
    # Somebody may have put line breaks around the release, or a strange letter into the name of a
    # host: a header has none.
    line = " ".join("; ".join(told).split()).encode("unicode_escape").decode()
    return given._replace(headers={**given.headers, NOTICE: "; ".join([*known, line])})


def _response(given: Answer, method: str) -> Response:
    """An answer as it goes over the wire; without its body where only the head was asked for."""
    response = Response(_body(given), given.status, _headers(given), media_type=None)
    if method == "HEAD":
        response.body = b""  # after the length has been said
    return response


def _body(given: Answer) -> bytes:
    if isinstance(given.body, str):
        return given.body.encode("latin-1", "replace")
    return javajson.encode(given.body)


def _headers(given: Answer) -> Mapping[str, str]:
    headers = {"server": "controlplane"}
    if given.content_type is not None:
        headers["content-type"] = given.content_type
    if given.content_type == HTML:
        headers["cache-control"] = "must-revalidate,no-cache,no-store"
    if given.status == UNAVAILABLE:
        headers["retry-after"] = str(RETRY_AFTER_S)
    return {**headers, **given.headers}

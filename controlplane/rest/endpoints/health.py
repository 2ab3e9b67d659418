"""Health of the worker: `GET /health` (KIP-1017).

Kafka asks its herder, and reports it unhealthy if it does not answer in time. This service depends
on its log instead: without the log it answers from old state.
"""

from controlplane.rest.errors import INTERNAL_ERROR, OK, UNAVAILABLE, Answer

_STARTING = "Worker is still starting up."
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


def health(*, started: bool, trouble: str | None = None) -> Answer:
    """Return the health answer; `started` is True once the log was read to its end.

    `trouble` is a sentence about the current failure.
    """
    if not started:
        return _told(UNAVAILABLE, "starting", _STARTING, trouble)
    if trouble is not None:
        return _told(INTERNAL_ERROR, "unhealthy", _UNHEALTHY, trouble)
    return _told(OK, "healthy", _HEALTHY)


def _told(code: int, status: str, message: str, more: str | None = None) -> Answer:
    """Return `WorkerStatus`; the message ends with the current failure."""
    told = message if more is None else f"{message} {more}"
    return Answer(code, {"status": status, "message": told})

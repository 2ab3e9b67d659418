"""Whether this worker can answer: `GET /health` (KIP-1017).

Kafka asks its herder, and believes it unwell when it does not answer in time. Here the log that is
followed is the heart: whoever cannot read it answers from what was known before.
"""

from controlplane.rest.errors import INTERNAL_ERROR, OK, UNAVAILABLE, Answer

_STARTING = "Worker is still starting up."
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


def health(*, started: bool, trouble: str | None = None) -> Answer:
    """How a worker is: it has `started` once the log was read to its end.

    `trouble` is why it cannot go on, in a sentence.
    """
    if not started:
        return _told(UNAVAILABLE, "starting", _STARTING, trouble)
    if trouble is not None:
        return _told(INTERNAL_ERROR, "unhealthy", _UNHEALTHY, trouble)
    return _told(OK, "healthy", _HEALTHY)


def _told(code: int, status: str, message: str, more: str | None = None) -> Answer:
    """`WorkerStatus`; what the worker is about just now stands behind the message."""
    told = message if more is None else f"{message} {more}"
    return Answer(code, {"status": status, "message": told})

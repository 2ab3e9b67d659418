"""Endings of commands that were cut off: sentences for the caller, outcomes for the trail."""

from typing import Any

from controlplane.attached.execution import CHECK, AttachedAnswer
from controlplane.attached.trail import UNKNOWN
from controlplane.core.plan import Outcome, Rejected
from controlplane.rest.errors import WorkerAnswer

UNDER_WAY = "The command with the idempotency key {} is still being ended: send it again later"

UNKNOWN_OUTCOME = (
    "{}, and the log of the cluster does not show that the request was done. "
    f"The request may still be done; {CHECK}"
)

ENDED_LATER = (
    "{}: some requests of this command were sent. "
    "The command is completed or taken back once the workers answer (see GET /commands)"
)

CUT_OFF = (
    "This service was cut off before a worker had answered. "
    f"The log of the cluster does not show that the request was done: {CHECK}"
)


def ending_of(answer: AttachedAnswer) -> dict[str, Any]:
    """Ending for the trail if neither a worker nor the log shows whether the command was done."""
    is_unknown = isinstance(answer, Rejected) and str(answer.text).endswith(CHECK)
    return {"ended": UNKNOWN} if is_unknown else {}


def is_success(answer: AttachedAnswer) -> bool:
    """True if the command was done."""
    return isinstance(answer, Outcome) or (isinstance(answer, WorkerAnswer) and answer.is_success)

"""Progress of one comparison: answers of a worker and of its log, until both stand still.

A log and a worker change while they are asked. An answer of the worker is therefore compared with
the answers of the log before and after it. A difference counts only if nothing has moved for a
while: neither the log's answer nor the worker's.
"""

from enum import Enum
from typing import NamedTuple

from controlplane.scenario.json_equality import equal_json
from controlplane.scenario.story import RecordedAnswer


class Agreement(Enum):
    """Agreement of a worker's answer with the log, as known so far."""

    UNKNOWN = "not asked yet"
    AGREES = "agrees"
    DIFFERS = "differs"
    MOVES = "moves"
    """The answers differ, and did not stand still for long enough."""
    SILENT = "silent"
    """The worker gave no answer; it starts, rebalances or is down."""
    LEFT_OUT = "left out"
    """The log does not determine the answer."""


class ComparedAnswers(NamedTuple):
    """Answer of a worker, and the answer of the log before and after it."""

    worker: RecordedAnswer
    before: RecordedAnswer
    after: RecordedAnswer

    @property
    def agree(self) -> bool:
        """True if the worker answers as the log did at one of both times."""
        return equal(self.worker, self.before) or equal(self.worker, self.after)


class AnswerProgress:
    """Comparison of one endpoint of one worker, over several rounds."""

    def __init__(self) -> None:
        self.standing = Agreement.UNKNOWN
        self.reason = ""
        """Reason for silence, or for leaving the answer out."""
        self.is_gone = False
        """True if the worker did not answer at all."""
        self.last: ComparedAnswers | None = None
        self._since_s = 0.0

    @property
    def is_open(self) -> bool:
        """True if a further round would ask the worker for this answer again.

        A result `DIFFERS` is also checked again: the difference may still disappear.
        """
        return self.standing not in (Agreement.AGREES, Agreement.LEFT_OUT)

    @property
    def is_decided(self) -> bool:
        """True if this comparison needs no further round.

        A result `DIFFERS` is decided, because the difference has stayed for the settle time. Such a
        result is still open: if other comparisons need further rounds, these check it again.
        """
        return self.standing in (Agreement.AGREES, Agreement.LEFT_OUT, Agreement.DIFFERS)

    def take(self, answers: ComparedAnswers, now_s: float, settle_s: float) -> None:
        """Take the answers of one round. `settle_s`: time for which a difference must stay."""
        last, self.last = self.last, answers
        self.reason = ""
        if answers.agree:
            self.standing = Agreement.AGREES
            return
        if last is None or not _is_still(last, answers):
            self._since_s = now_s
            self.standing = Agreement.MOVES
        if now_s - self._since_s >= settle_s and equal(answers.before, answers.after):
            self.standing = Agreement.DIFFERS

    def fall_silent(self, reason: str, *, is_gone: bool) -> None:
        """Note that the worker gave no answer. The settle time of a difference starts anew."""
        self.standing, self.reason, self.is_gone, self.last = (
            Agreement.SILENT,
            reason,
            is_gone,
            None,
        )

    def leave_out(self, reason: str) -> None:
        """Note that the log does not determine the answer."""
        self.standing, self.reason = Agreement.LEFT_OUT, reason


def _is_still(earlier: ComparedAnswers, later: ComparedAnswers) -> bool:
    """True if neither the worker nor the log has moved from one round to the next."""
    return (
        equal(earlier.worker, later.worker)
        and equal(earlier.after, later.before)
        and equal(later.before, later.after)
    )


def equal(recorded: RecordedAnswer, other: RecordedAnswer) -> bool:
    """True if two answers are equal as JSON, without the order of lists.

    An error without JSON, such as a page of Jetty, equals any error of its status.
    """
    is_page = recorded.status >= FIRST_ERROR and None in (recorded.answer, other.answer)
    return recorded.status == other.status and (
        is_page or equal_json(recorded.answer, other.answer)
    )


FIRST_ERROR = 400
"""Least HTTP status of an error."""

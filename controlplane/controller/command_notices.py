"""Notices to operators about commands that have ended."""

from collections.abc import Callable

from controlplane.controller.admission import CommandAnswer, QueuedCommand, subject_of
from controlplane.core.commands import CommandRequest
from controlplane.core.plan import Rejected
from controlplane.core.text.redaction import redacted_refusal
from controlplane.logs.log import LogError
from controlplane.notices import Notices, info_check


class CommandNotices:
    """Reports ended and recovered commands to the receiver of notices."""

    def __init__(self, notices: Notices, now_ms: Callable[[], int]) -> None:
        self._notices = notices
        self.takes_info = info_check(notices)
        """Returns True if the receiver takes the notices of `ended`."""
        self._now_ms = now_ms

    def ended(self, job: QueuedCommand, answer: CommandAnswer | LogError, records: int) -> None:
        """Report a command that has ended. Call it only if `takes_info` returns True."""
        command = job.request.command
        outcome, reason = "done", None
        if isinstance(answer, Rejected):
            outcome, reason = answer.reason.value, redacted_refusal(answer.sentence)
        elif isinstance(answer, LogError):
            outcome, reason = "unfinished" if job.begun else "not begun", str(answer)
        self._notices.info(
            "command",
            command=command.__struct_config__.tag,
            **job.subject,
            principal=job.request.principal,
            outcome=outcome,
            reason=reason,
            records=records,
            command_id=job.request.command_id,
            took_ms=self._now_ms() - job.since_ms,
        )

    def recovered(
        self, request: CommandRequest, ending: str, rejected: Rejected | None, records: int
    ) -> None:
        """Report an unfinished command that was ended; `rejected` is the failure, if any."""
        self._notices.warning(
            "command_recovered",
            command=request.command.__struct_config__.tag,
            **subject_of(request.command),
            ending=ending,
            records=records,
            reason=redacted_refusal(rejected.sentence) if rejected else None,
            command_id=request.command_id,
        )

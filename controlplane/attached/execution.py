"""Execution of commands as requests to the workers, and their continuation after a crash.

Most commands are one request. A creation with offsets (KIP-995) and an undo are several. The trail
has the name of each of these requests before it is sent. A `RequestListener` is called after each
of them, with its name. A test can end the process there.

After an unknown outcome, the cluster's log shows whether a request was done. Only requests that may
be repeated without harm, such as a reset of offsets, are then sent again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple
from uuid import uuid4

from controlplane.attached.command_trail import Trail, progress_of
from controlplane.attached.connect_client import ConnectClient, NoWorkerAnswers
from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.planner import STEP_PREFIXES, ClusterPlanner, creation_parts
from controlplane.attached.settings import ConnectSettings
from controlplane.attached.worker_requests import request_of
from controlplane.controller.admission import CommandLimits
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CommandRequest,
    ConnectorCommand,
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    ResetOffsets,
    RestoreConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.decide import restore_plan
from controlplane.core.decide.create_with_offsets import SET, WIPE, failed, outcome_of
from controlplane.core.order import Ends
from controlplane.core.plan import HookSuccess, Outcome, Plan, Reason, Rejected
from controlplane.core.records import Target
from controlplane.core.state import ClusterState
from controlplane.event_loop import now_ms
from controlplane.notices import Notices
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.rest.errors import WorkerAnswer
from controlplane.worker_api import connector_path

AttachedAnswer = WorkerAnswer | Outcome | Rejected

RequestListener = Callable[[CommandRequest, str], Awaitable[None]]
"""Called before the first request (`accepted`), and after each request of a creation with offsets
or an undo. An exception ends the command there, as a crash does."""


async def _no_listener(_request: CommandRequest, _step: str) -> None:
    """Ignore the request."""


def _no_note(_note: str) -> None:
    """Ignore a note of the start."""


class AttachedSurroundings(NamedTuple):
    """Dependencies of an attached plane; tests replace them."""

    notices: Notices
    now_ms: Callable[[], int] = now_ms
    new_id: Callable[[], str] = lambda: str(uuid4())
    stepped: RequestListener = _no_listener
    limits: ConnectSettings = ConnectSettings()
    upkeep: UpkeepSettings = UpkeepSettings()
    """Interval and retention of the trail; it has no snapshots."""
    commands_waiting: int = CommandLimits().commands_waiting
    """Maximum commands that run or wait (`controller.commands.waiting`)."""
    note: Callable[[str], object] = _no_note
    """Prints a warning of the start; it gets the sentence."""


ACCEPTED = "accepted"

_LAGS = ("Connector {} not found", "Unknown connector {}", "Unknown connector: {}")
"""Messages of a worker that knows no such connector."""

_DEFINITE = "The offsets for this connector have been altered successfully"
"""Message after an alteration that the connector's hook has confirmed (KIP-875)."""


class AcceptedCommand(NamedTuple):
    """A command that the trail has accepted: its plan, and the log's ends at that time."""

    request: CommandRequest
    plan: Plan | Rejected
    since: Ends


class CommandExecution:
    """Sends the requests of a command, one after the other.

    The trail has each request of a creation with offsets or an undo.
    """

    def __init__(
        self,
        client: ConnectClient,
        planner: ClusterPlanner,
        log: LogFollowUp,
        trail: Trail,
        stepped: RequestListener,
    ) -> None:
        self._client = client
        self._planner = planner
        self._log = log
        self._trail = trail
        self._stepped = stepped

    async def perform(self, accepted: AcceptedCommand) -> AttachedAnswer:
        """Send the requests of a command; return the answer for the client.

        Raises:
            NoWorkerAnswers: no worker has taken a request. If it was the first one, nothing was
                done.
            OutcomeUnknown: a worker took a request and gave no answer.
            LogError: the log of the cluster, or the trail, cannot be used.
        """
        command = accepted.request.command
        await self._stepped(accepted.request, ACCEPTED)
        if isinstance(command, RestoreConnector):
            return await self._restore(accepted, command)
        if isinstance(command, CreateConnector) and command.initial_offsets is not None:
            return await self._create_with_offsets(accepted, command, "")
        return await self.send(command)

    async def send(self, command: AnyCommand, *, continues: bool = False) -> AttachedAnswer:
        """Send the one request of a command; `continues`: as part of a command that has begun."""
        request = request_of(command)
        if request is None:
            text = "Only workers accept this request: send it to a worker of the cluster itself"
            return Rejected(Reason.FORBIDDEN, text)
        name = command.connector if isinstance(command, ConnectorCommand) else ""
        messages = [text.format(name) for text in _LAGS]

        def may_lag(answer: WorkerAnswer) -> bool:
            """True if the worker lacks a connector that the log has."""
            return (
                answer.is_missing
                and answer.message in messages
                and name in self._log.present.config.connectors
            )

        return await self._client.send(request, may_lag, continues=continues)

    # --- undo -------------------------------------------------------------------------------------

    async def _restore(
        self, accepted: AcceptedCommand, command: RestoreConnector
    ) -> AttachedAnswer:
        """Send what still differs from the restored state, one request after the other.

        Each request is computed from the present state, so an undo that was cut off continues.
        """
        name = command.connector
        was_there = name in self._log.present.config.connectors
        has_begun = self._has_begun(accepted)
        async for part in self._parts(command):
            if isinstance(part, Rejected):
                return _incomplete_undo(name, part) if has_begun else part
            answer = await self._record_and_send(accepted, part)
            if not (isinstance(answer, WorkerAnswer) and answer.is_success):
                return _incomplete_undo(name, answer) if has_begun else answer
            has_begun = True
            await self._log.read_on()
        return Outcome(created=command.config is not None and not was_there)

    async def resume_undo(
        self, accepted: AcceptedCommand, plan: Plan, command: RestoreConnector
    ) -> AttachedAnswer:
        """Continue an undo that was cut off after its first request had begun.

        A connector that another client has changed in the meantime is left as it is.
        """
        if await self._log.has_foreign_request(plan, accepted.since, command.connector):
            return Rejected(Reason.CONFLICT, _UNDO_CHANGED.format(command.connector))
        return await self.perform(accepted)

    async def _parts(self, command: RestoreConnector) -> AsyncIterator[AnyCommand | Rejected]:
        for part in restore_plan.commands_in_turn(command, self._planner.context):
            part_command = part(await self._log.state_at_end())
            if part_command is not None:
                yield part_command

    # --- creation with offsets --------------------------------------------------------------------

    async def _create_with_offsets(
        self, accepted: AcceptedCommand, command: CreateConnector, last_step: str
    ) -> AttachedAnswer:
        """Create STOPPED, remove old offsets, set the new ones, then resume or pause (KIP-995).

        `last_step` is the last request that is known to be done. A failure removes the connector
        again, and its offsets, so that nothing half done stays.
        """
        parts = creation_parts(command)
        steps = [STEP_PREFIXES[type(part)] for part in parts]
        definite = False
        for part in parts[steps.index(last_step) + 1 if last_step else 0 :]:
            if isinstance(part, ResetOffsets) and not await self._has_offsets(part.connector):
                continue
            answer = await self._record_and_send(accepted, part)
            if isinstance(answer, WorkerAnswer) and answer.is_success:
                if isinstance(part, AlterOffsets):
                    definite = _message(answer) == _DEFINITE
                continue
            if isinstance(part, CreateConnector):
                return answer  # the connector is not ours: nothing to take back
            refused = await self._take_back(accepted, command)
            return _with_remains(_failed(command, part, answer), command.connector, refused)
        return outcome_of(HookSuccess(definite=definite))

    async def _has_offsets(self, connector: str) -> bool:
        """True unless the connector surely has no offsets.

        Without offsets no reset is sent: some workers hang at it (exactly-once, own offsets topic).
        """
        shown = await self._client.get(connector_path(connector, "offsets"))
        return not isinstance(shown, dict) or bool(shown.get("offsets"))

    async def _take_back(self, accepted: AcceptedCommand, command: CreateConnector) -> str | None:
        """Remove the offsets, then the connector: offsets can be removed only while it exists.

        Another client may have resumed the connector meanwhile, so it is stopped again. Returns the
        reason of the first refused removal; None: nothing is left.

        Raises:
            OutcomeUnknown, LogUnavailable: the trail keeps the command unfinished. No worker has
                answered, or a worker that lags behind does not know the connector.
        """
        name = command.connector
        removals: list[AnyCommand] = [DeleteConnector(name)]
        if await self._has_offsets(name):
            await self._record_and_send(accepted, StopConnector(name), TAKE_BACK)
            removals.insert(0, ResetOffsets(name))
        refusals: list[str | None] = []
        for part in removals:
            answer = await self._record_and_send(accepted, part, TAKE_BACK)
            refusals.append(_removal_refusal(answer))
            if isinstance(answer, WorkerAnswer) and answer.is_missing:
                state = await self._log.state_at_end()
                if await self._is_mine(accepted, state, command):
                    raise NoWorkerAnswers(_LAGGING.format(name))
        return next(filter(None, refusals), None)

    async def resume_creation(
        self, accepted: AcceptedCommand, command: CreateConnector, step: str
    ) -> AttachedAnswer:
        """Continue a creation that was cut off while the request `step` was under way.

        The log shows whether the connector is the one that this command has created. A creation
        that was sent may still lie in a worker's queue, so its record is waited for. A connector
        that another client has changed or resumed in the meantime is left as it is.
        """
        created = STEP_PREFIXES[CreateConnector]
        name = command.connector
        if not step:  # nothing was sent: an equal connector is that of another client
            return Rejected(Reason.FAILED, _NOT_DONE.format(name))
        if step == created and not await self._log.config_appears(accepted.since, name):
            return Rejected(Reason.FAILED, _NOT_SEEN.format(name))
        state = await self._log.state_at_end()
        mine = await self._is_mine(accepted, state, command)
        if step == created and not mine:
            return Rejected(Reason.FAILED, _NOT_DONE.format(name))
        if step == TAKE_BACK:
            refused = await self._take_back(accepted, command) if mine else None
            if refused is not None:
                failure = Rejected(Reason.FAILED, _FAILED_CREATION.format(name))
                return _with_remains(failure, name, refused)
            return Rejected(Reason.FAILED, _TAKEN_BACK.format(name))
        if not mine:
            return Rejected(Reason.CONFLICT, _CHANGED.format(name))
        if state.config.targets.get(name) is not Target.STOPPED:
            if step not in _LAST_STEPS:
                return Rejected(Reason.CONFLICT, _CHANGED.format(name))
            # The last request resumes or pauses the connector, so all requests are done.
            return outcome_of(HookSuccess(definite=False))
        # The offsets may be set in part. Reset and alteration are sent again; that does no harm.
        return await self._create_with_offsets(accepted, command, created)

    async def _is_mine(
        self, accepted: AcceptedCommand, state: ClusterState, command: CreateConnector
    ) -> bool:
        """True if the connector has the command's config and one config record since acceptance."""
        written = await self._log.configs_since(accepted.since, command.connector)
        present = state.config.connectors.get(command.connector)
        config = {**command.config, "name": command.connector}
        return present is not None and dict(present) == config and len(written) == 1

    async def _record_and_send(
        self, accepted: AcceptedCommand, part: AnyCommand, step: str = ""
    ) -> AttachedAnswer:
        """Record that a request begins, and send it.

        If no worker takes the command's first request, a second record without a step's name
        follows. Then the trail shows again that no request has begun.

        Raises:
            OutcomeUnknown, NoWorkerAnswers: no answer, or a later request is refused for now.
        """
        step = step or STEP_PREFIXES.get(type(part)) or str(part.__struct_config__.tag)
        is_first = not self._has_begun(accepted)
        await self._trail.accepted(accepted.request, accepted.plan, accepted.since, step)
        try:
            answer = await self.send(part, continues=not is_first)
        except NoWorkerAnswers:
            if is_first:
                await self._trail.accepted(accepted.request, accepted.plan, accepted.since)
            raise
        await self._stepped(accepted.request, step)
        return answer

    def _has_begun(self, accepted: AcceptedCommand) -> bool:
        """True if a request of the command was sent, here or by an earlier process."""
        return bool(progress_of(self._trail.commands[accepted.request.command_id]).step)


CHECK = "check before you repeat it"
"""End of each answer about an unknown outcome."""

TAKE_BACK = "take-back"
"""Step in which a failed creation is removed."""

_LAST_STEPS = (STEP_PREFIXES[ResumeConnector], STEP_PREFIXES[PauseConnector])
"""Steps of the last request of a creation. Only they move the connector out of STOPPED."""

_NOT_DONE = "Connector {} was not created before this service was cut off: send the request again"
_NOT_SEEN = (
    "The creation of connector {} was sent and got no answer, and the log of the cluster does not "
    f"show it. The connector may still be created, stopped and without its offsets; {CHECK}"
)
_CHANGED = (
    "Another client changed connector {} before its creation with offsets was complete. "
    "The connector is left as it is: check its offsets, and resume it"
)
_UNDO_CHANGED = (
    "Another client changed connector {} before its undo was complete. "
    "The connector is left as it is: check it, and undo again if necessary"
)
_INCOMPLETE_UNDO = (
    "The undo of connector {} is incomplete: workers did a part of it, and refused the next "
    "request ({}). Check the connector, and undo again"
)
_LAGGING = "A worker does not know connector {}, which the log of the cluster has"
_TAKEN_BACK = "The creation of connector {} failed, and was taken back"
_FAILED_CREATION = "The creation of connector {} failed"
_REMAINS = (
    "{}. The removal of connector {} and its offsets failed, too ({}): remove what is left of them"
)

_FAILED_STEPS: Mapping[type, str] = {ResetOffsets: WIPE, AlterOffsets: SET}
"""Descriptions of the requests of a creation, for the error that names the failed one."""


def _removal_refusal(answer: AttachedAnswer) -> str | None:
    """Reason why a removal was refused; None: it was done, or nothing was left to remove."""
    if not isinstance(answer, WorkerAnswer):
        return answer.sentence if isinstance(answer, Rejected) else None
    is_removed = answer.is_success or answer.is_missing
    return None if is_removed else answer.message or f"HTTP {answer.status}"


def _with_remains(failure: Rejected, connector: str, why: str | None) -> Rejected:
    """Add the reason of a refused removal to a creation's refusal; None: the removal succeeded."""
    if why is None:
        return failure
    return Rejected(failure.reason, _REMAINS.format(failure.text, connector, why))


def _failed(command: CreateConnector, part: ConnectorCommand, answer: AttachedAnswer) -> Rejected:
    """Refusal of a creation that failed at a later request, with the step in its message."""
    text = answer.message if isinstance(answer, WorkerAnswer) else None
    refused = isinstance(answer, WorkerAnswer) and answer.is_refusal
    reason = Reason.INVALID if refused else Reason.FAILED
    doing = _FAILED_STEPS.get(type(part), "set the state of connector {}")
    return failed(doing, command, Rejected(reason, text))


def _incomplete_undo(connector: str, answer: AttachedAnswer) -> Rejected:
    """Refusal of an undo whose later request was refused, with the reason."""
    if isinstance(answer, WorkerAnswer):
        reason = Reason.INVALID if answer.is_refusal else Reason.FAILED
        why = answer.message or f"HTTP {answer.status}"
    else:
        assert isinstance(answer, Rejected)
        reason, why = answer.reason, answer.sentence
    return Rejected(reason, _INCOMPLETE_UNDO.format(connector, why))


def _message(answer: WorkerAnswer) -> str | None:
    body = answer.json()
    return body.get("message") if isinstance(body, dict) else None


def connector_of(command: AnyCommand) -> str:
    """Return the connector of a command; empty for a command without one."""
    return command.connector if isinstance(command, ConnectorCommand) else ""

"""Plans of commands: the records that the release of the attached cluster would write.

Plans are predictions. They are shown as dry runs, and compared with the records of the workers. A
plan never replaces a worker's answer.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from controlplane.attached.connect_client import ConnectClient, ConnectRequest, NoWorkerAnswers
from controlplane.attached.worker_requests import name_refusal, path_refusal, validation_request
from controlplane.controller.decision import Decider
from controlplane.controller.external import ExternalActionFailed, NoExternalSystems
from controlplane.core.codec.config import decode_config
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    ConnectorCommand,
    CreateConnector,
    PauseConnector,
    PutConfig,
    ResetOffsets,
    RestoreConnector,
    ResumeConnector,
)
from controlplane.core.context import Context
from controlplane.core.decide.prediction import predicted_state
from controlplane.core.plan import AdminOverrides, GroupOffsets, Plan, Reason, Rejected, Step
from controlplane.core.records import ConnectorConfig, Target
from controlplane.core.state import ClusterState
from controlplane.rest.errors import CONFLICT, WorkerAnswer
from controlplane.worker_api import connector_path

STEP_PREFIXES = {
    CreateConnector: "create",
    ResetOffsets: "reset",
    AlterOffsets: "offsets",
    PauseConnector: "pause",
    ResumeConnector: "resume",
}
"""Prefixes of the step names of a creation with offsets, by command."""

_TOO_OLD = (
    "{} needs workers of Connect 3.7 or later, and this service plans as {}: leave it out, and {}"
)
_KEEPS_OFFSETS = (
    "An undo of offsets needs workers of Connect 3.6 or later, and this service plans as {}: undo "
    "without offsets=true"
)


class WorkerGroups(NoExternalSystems):
    """Committed offsets of a sink connector, as a worker shows them (KIP-875)."""

    def __init__(self, client: ConnectClient, connector: str) -> None:
        self._client = client
        self._connector = connector

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of the connector's group; the worker knows group and brokers.

        Empty if the worker lacks the endpoint (before 3.5) or the connector.

        Raises:
            ExternalActionFailed: no worker answers, or it answers with another error.
        """
        del group, admin
        request = ConnectRequest("GET", connector_path(self._connector, "offsets"))
        try:
            answer = await self._client.send(request)
        except NoWorkerAnswers as failure:
            raise ExternalActionFailed(str(failure)) from None
        if not (answer.is_success or answer.is_missing or answer.is_unsupported):
            why = answer.message or "no message"
            raise ExternalActionFailed(f"a worker answers {answer.status}: {why}")
        if not answer.is_success:
            return ()
        try:
            shown = msgspec.json.decode(answer.body, type=_ShownOffsets)
        except _UNDECODABLE as failure:
            raise ExternalActionFailed(
                f"a worker's list of offsets has an unknown form: {failure}"
            ) from None
        return tuple(
            (item.partition.kafka_topic, item.partition.kafka_partition, item.offset.kafka_offset)
            for item in shown.offsets
            if item.offset is not None
        )


class _ShownPartition(msgspec.Struct, frozen=True):
    kafka_topic: str
    kafka_partition: int


class _ShownPosition(msgspec.Struct, frozen=True):
    kafka_offset: int


class _ShownOffset(msgspec.Struct, frozen=True):
    partition: _ShownPartition
    offset: _ShownPosition | None = None


class _ShownOffsets(msgspec.Struct, frozen=True):
    """Answer of a worker to `GET /connectors/{sink}/offsets`."""

    offsets: tuple[_ShownOffset, ...]


class _ShownValue(msgspec.Struct, frozen=True):
    errors: tuple[str, ...] = ()


class _ShownSetting(msgspec.Struct, frozen=True):
    value: _ShownValue


class _ShownValidation(msgspec.Struct, frozen=True):
    """Answer of a worker to the validation of a config."""

    configs: tuple[_ShownSetting, ...]


_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec about an answer of an unknown form."""


class ClusterPlanner:
    """Plans commands as a worker of the cluster decides them; writes nothing."""

    def __init__(self, context: Context, client: ConnectClient, origin: str) -> None:
        """`origin`: that of the release (`IdentifiedCluster.origin`)."""
        self.context = context
        self._client = client
        self._release = f"{context.profile.release}, {origin}"
        """Release and its origin, for refusals."""

    async def plan(self, state: ClusterState, command: AnyCommand) -> Plan | Rejected:
        """Plan a command by a state of the cluster's release."""
        refused = self.lacking(command)
        if refused is not None:
            return refused
        if isinstance(command, CreateConnector) and command.initial_offsets is not None:
            return await self._creation(state, command)
        planned = await self._decided(state, command, self.context)
        is_lacking = isinstance(planned, Rejected) and planned.reason is Reason.NOT_OFFERED
        if is_lacking and isinstance(command, RestoreConnector) and command.offsets is not None:
            return Rejected(Reason.INVALID, _KEEPS_OFFSETS.format(self._release))
        return planned

    async def validated(self, command: AnyCommand) -> Rejected | None:
        """Validate a new config with the classes of the cluster; None: it has no errors.

        Raises:
            NoWorkerAnswers: no worker has answered.
        """
        if not isinstance(command, CreateConnector | PutConfig):
            return None
        config = {**command.config, "name": command.connector}
        named = str(config.get("connector.class") or "")
        refused = name_refusal(named)
        if refused is not None:
            return refused
        answer = await self._client.send(validation_request(named, config))
        if not answer.is_success:
            return Rejected(_reason(answer), answer.message)
        try:
            validation = msgspec.json.decode(answer.body, type=_ShownValidation)
        except _UNDECODABLE as failure:
            return Rejected(Reason.FAILED, f"A worker's validation has an unknown form: {failure}")
        errors = [error for setting in validation.configs for error in setting.value.errors]
        return Rejected(Reason.INVALID, self._invalid(errors)) if errors else None

    async def validated_plan(self, plan: Plan, connector: str) -> Plan | Rejected:
        """Validate the config that a plan writes; return the plan, or the refusal.

        Raises:
            NoWorkerAnswers: no worker has answered.
        """
        for draft in (draft for step in plan.steps for draft in step.records):
            record = decode_config(draft.key, draft.value, self.context.profile)
            if isinstance(record, ConnectorConfig) and record.properties is not None:
                return await self.validated(PutConfig(connector, record.properties)) or plan
        return plan

    def lacking(self, command: AnyCommand) -> Rejected | None:
        """Refusal if the cluster's release lacks the command, or no URL can name its connector."""
        profile = self.context.profile
        refused = path_refusal(command)
        if refused is not None or not isinstance(command, CreateConnector):
            return refused
        able = profile.creates_in_state and profile.alters_offsets
        if command.initial_offsets is not None and not able:
            text = _TOO_OLD.format("initial_offsets", self._release, "create the connector alone")
            return Rejected(Reason.INVALID, text)
        if command.initial_state is not None and not profile.creates_in_state:
            text = _TOO_OLD.format("initial_state", self._release, "pause the connector later")
            return Rejected(Reason.INVALID, text)
        return None

    async def checked_creation(
        self, state: ClusterState, command: CreateConnector
    ) -> Plan | Rejected:
        """Decide a creation with offsets as KIP-995 says: its refusals, or its outcome.

        Do not compare the plan's records: this project's control plane writes them in another order
        than workers do.
        """
        profile = msgspec.structs.replace(self.context.profile, creates_with_offsets=True)
        context = msgspec.structs.replace(self.context, profile=profile)
        return await self._decided(state, command, context)

    async def _creation(self, state: ClusterState, command: CreateConnector) -> Plan | Rejected:
        checked = await self.checked_creation(state, command)
        if isinstance(checked, Rejected):
            return checked
        steps: list[Step] = []
        assumed = [*checked.assumed]
        for part in creation_parts(command):
            planned = await self._decided(state, part, self.context)
            if isinstance(planned, Rejected):
                return planned
            word = STEP_PREFIXES[type(part)]
            steps += (_prefixed(step, word) for step in planned.steps)
            assumed += planned.assumed
            state = predicted_state(state, planned)
        plan = msgspec.structs.replace(checked, steps=tuple(steps), commit_point=steps[-1].name)
        return msgspec.structs.replace(plan, assumed=tuple(dict.fromkeys(assumed)))

    async def _decided(
        self, state: ClusterState, command: AnyCommand, context: Context
    ) -> Plan | Rejected:
        name = command.connector if isinstance(command, ConnectorCommand) else ""
        decider = Decider(context, WorkerGroups(self._client, name))
        try:
            return await decider.decided(state, command, believe_hooks=True)
        finally:
            decider.close()

    def _invalid(self, errors: Sequence[str]) -> str:
        listed = "\n".join(errors)
        return (
            f"Connector configuration is invalid and contains the following {len(errors)} "
            f"error(s):\n{listed}"
        )


CreationPart = CreateConnector | ResetOffsets | AlterOffsets | ResumeConnector | PauseConnector
"""Any of the commands that make up a creation with offsets."""


def creation_parts(command: CreateConnector) -> tuple[CreationPart, ...]:
    """Commands by which an existing release creates a connector with offsets (KIP-995).

    The connector is created STOPPED, so no task starts before its offsets are there. The offsets of
    an earlier connector of that name are removed first.
    """
    name, target = command.connector, command.initial_state
    stopped = CreateConnector(name, command.config, Target.STOPPED)
    offsets = AlterOffsets(name, command.initial_offsets or ())
    last: tuple[CreationPart, ...] = (ResumeConnector(name),)
    if target is Target.STOPPED:
        last = ()
    elif target is Target.PAUSED:
        last = (PauseConnector(name),)
    return (stopped, ResetOffsets(name), offsets, *last)


def _reason(answer: WorkerAnswer) -> Reason:
    """Reason why a worker has validated nothing; after a 409 the client may try again."""
    if answer.status == CONFLICT:
        return Reason.CONFLICT
    return Reason.INVALID if answer.is_refusal else Reason.FAILED


def _prefixed(step: Step, word: str) -> Step:
    return msgspec.structs.replace(step, name=f"{word}-{step.name}")

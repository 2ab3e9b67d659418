"""Trail of an attached cluster: every command, in a log of our own.

The records are those of a command topic (`core.codec.command_log`). The record *accepted* is
durable before the first request leaves, so a crash never loses a command. Retention removes old
records, as in an embedded log.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controlplane.core.codec import command_log, encode_command
from controlplane.core.commands import CommandRequest
from controlplane.core.entry import Entry
from controlplane.core.fold.commands import CommandFold
from controlplane.core.order import Ends
from controlplane.core.plan import Outcome, Plan, Rejected
from controlplane.core.records import CommandAccepted, CommandFinished, CommandTrace
from controlplane.event_loop import run_to_end
from controlplane.logs.log import Log, LogNotUsable, ProbedLog, Record
from controlplane.projection.retention import ReadCommands, RetentionSettings, retain_commands
from controlplane.rest.errors import WorkerAnswer

CLUSTER_TOPIC = "attached-cluster"
"""Topic of the trail with a single record, which names the cluster (`ClusterIdentity`)."""

REFUSAL_MAX_BYTES = 16_384
"""Maximum size of a refused command's record; a larger one is kept as an excerpt."""

COMMON_COMMIT_S = 0.02
"""Longest time in seconds that the record *finished* waits for the next record: one commit is
cheaper than two. A process that is killed meanwhile looks the command up at its next start."""

REFUSED, UNKNOWN = "refused", "unknown"
"""Endings of a command that a worker refused, and of one that may have been executed."""


class ClusterIdentity(msgspec.Struct, frozen=True):
    """Names of a Connect cluster: the id of its Kafka cluster, and its config topic."""

    kafka_cluster_id: str | None
    config_topic: str

    def __str__(self) -> str:
        return f"{self.config_topic} in Kafka cluster {self.kafka_cluster_id}"


class AttachedProgress(msgspec.Struct, frozen=True):
    """Position in the cluster's log at acceptance, and the last request that was begun."""

    since: dict[str, list[int]] = {}
    step: str = ""


class _TrailWrite:
    """Record that waits for a commit."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.written: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Trail:
    """The commands of an attached cluster, in a log that this process alone writes."""

    def __init__(self, log: Log, topic: str, epoch: int) -> None:
        """Use `open`, which claims and reads the log."""
        self.log = log
        self._topic = topic
        self._epoch = epoch
        self._fold = CommandFold()
        self._end = 0
        """Offset after the last folded record."""
        self._waiting: list[_TrailWrite] = []
        """Records for the next commit, in their order."""

    @classmethod
    async def open(cls, log: Log, topic: str, cluster: ClusterIdentity, at_ms: int) -> "Trail":
        """Claim a log as the trail of a cluster, and read it.

        Raises:
            LogNotUsable: it is the trail of another cluster, or no trail at all.
            LogError: it cannot be read or written.
        """
        existing = await log.topics()
        if existing and CLUSTER_TOPIC not in existing:
            # Two control planes would end each other's unfinished commands.
            raise LogNotUsable(
                f"The file is the log of another control plane (topic {min(existing)}), and no "
                "trail: name another file with --trail"
            )
        for name in (CLUSTER_TOPIC, topic):
            if name not in existing:
                await log.create_topic(name, 1)
        trail = cls(log, topic, await log.claim())
        await trail._check_cluster(cluster, at_ms)
        async for batch in log.read([topic]):
            for entry in batch.entries():
                trail._apply(entry)
        return trail

    async def _check_cluster(self, cluster: ClusterIdentity, at_ms: int) -> None:
        stored: bytes | None = None
        async for batch in self.log.read([CLUSTER_TOPIC]):
            for entry in batch.entries():
                stored = entry.value
        if stored is None:
            value = msgspec.json.encode(cluster)
            record = Record(CLUSTER_TOPIC, 0, at_ms, b"cluster", value)
            await self.log.append([record], self._epoch)
            return
        first = msgspec.json.decode(stored, type=ClusterIdentity)
        if first != cluster:
            raise LogNotUsable(
                f"The trail is that of {first}, and not of {cluster}: name another file with "
                "--trail"
            )

    @property
    def commands(self) -> Mapping[str, CommandTrace]:
        """Traces by command id: all unfinished commands, and the last `ENDED_KEPT` that ended."""
        return self._fold.publish()

    async def check_writable(self) -> None:
        """Raise `LogError` unless a command could be recorded now."""
        if isinstance(self.log, ProbedLog):
            await self.log.check_writable(self._epoch)

    async def retain(self, now_ms: int, settings: RetentionSettings) -> int:
        """Remove expired records, up to the first unfinished command; return their number.

        `commands` stays as it is until the trail is opened again.

        Raises:
            LogError: the trail cannot be read or written.
        """
        read = ReadCommands(self._topic, [self._end], self.commands)
        return await retain_commands(self.log, read, now_ms, settings)

    async def accepted(
        self, request: CommandRequest, plan: Plan | Rejected, since: Ends, step: str = ""
    ) -> None:
        """Record that a command begins, or that its next request is sent now.

        Raises:
            LogError: the trail cannot be written; the request must not be sent.
        """
        progress = AttachedProgress({topic: [*ends] for topic, ends in since.items()}, step)
        steps = msgspec.to_builtins(plan) if isinstance(plan, Plan) else {}
        stored = {**steps, "attached": msgspec.to_builtins(progress)}
        command = msgspec.to_builtins(request.command)
        record = CommandAccepted(
            request.command_id, request.at_ms, request.principal, command, stored
        )
        await self._append(request.at_ms, *encode_command(record))

    async def finished(
        self,
        request: CommandRequest,
        at_ms: int,
        answer: WorkerAnswer | Outcome | Rejected,
        facts: Mapping[str, Any],
    ) -> None:
        """Record that a command has ended, with its answer and `facts` about its records.

        No caller waits for this record, so it may wait for the record of a later command.
        """
        stored = {**_stored(answer, whole=request.keyed), **facts}
        record = CommandFinished(request.command_id, at_ms, stored)
        await self._append(at_ms, *encode_command(record), wait_s=COMMON_COMMIT_S)

    async def refused(self, request: CommandRequest, rejected: Rejected) -> None:
        """Record that this program refused a command, and sent no request."""
        draft = command_log.refused(self._topic, request, rejected, REFUSAL_MAX_BYTES)
        await self._append(request.at_ms, draft.key, draft.value)

    async def _append(self, at_ms: int, key: bytes, value: bytes | None, wait_s: float = 0) -> None:
        """Append a record after those that wait; all of them are one commit.

        The record itself waits up to `wait_s` for the next append. A caller that is cancelled does
        not cancel the commit, which has records of other callers.
        """
        write = _TrailWrite(Record(self._topic, 0, at_ms, key, value))
        self._waiting.append(write)
        if wait_s:
            await asyncio.wait([write.written], timeout=wait_s)
        if write in self._waiting:
            writes, self._waiting = self._waiting, []
            await run_to_end(self._commit(writes))
        if not write.written.done():
            await asyncio.wait([write.written])  # unlike `await`, never cancels the future
        write.written.result()

    async def _commit(self, writes: Sequence[_TrailWrite]) -> None:
        """Append records in one commit; each caller gets the outcome by its own future."""
        try:
            positions = await self.log.append([write.record for write in writes], self._epoch)
        except BaseException as failure:
            for write in writes:
                write.written.set_exception(failure)
                write.written.exception()  # marks it as retrieved: its caller may be cancelled
            if not isinstance(failure, Exception):
                raise
            return
        for write, position in zip(writes, positions, strict=True):
            record = write.record
            self._apply(Entry(*position, record.timestamp, record.key, record.value))
            write.written.set_result(None)

    def _apply(self, entry: Entry) -> None:
        self._fold.apply(entry)
        self._end = entry.offset + 1


def _stored(answer: WorkerAnswer | Outcome | Rejected, *, whole: bool) -> dict[str, Any]:
    """An answer as data. `whole`: keep the body, because the caller may repeat its request."""
    if isinstance(answer, Rejected):
        return {"ended": command_log.FAILED, **msgspec.to_builtins(answer)}
    if isinstance(answer, Outcome):
        return {"ended": command_log.DONE, **msgspec.to_builtins(answer)}
    ended = REFUSED if answer.is_refusal else command_log.FAILED
    stored: dict[str, Any] = {
        "ended": command_log.DONE if answer.is_success else ended,
        "status": answer.status,
    }
    if not answer.is_success:
        stored["text"] = answer.message
    if whole:
        body = answer.body.decode("utf-8", "replace")
        answer_type, location = answer.content_type, answer.location
        stored["worker_answer"] = {"body": body, "type": answer_type, "location": location}
    return stored


def answer_of(trace: CommandTrace) -> WorkerAnswer | Outcome | Rejected | None:
    """Answer of an ended command; None: it has not ended, or its answer was not kept."""
    if trace.finished is None:
        return None
    stored = trace.finished.outcome
    kept = stored.get("worker_answer")
    if kept is not None:
        body = kept["body"].encode()
        return WorkerAnswer(stored["status"], body, kept["type"], kept["location"])
    if "status" in stored:
        return None
    return command_log.ended(trace)


def progress_of(trace: CommandTrace) -> AttachedProgress:
    """Progress of a command that has not ended."""
    plan = trace.accepted.plan if trace.accepted is not None else None
    stored = plan.get("attached") if isinstance(plan, dict) else None
    return msgspec.convert(stored or {}, AttachedProgress)


def plan_of(trace: CommandTrace) -> Plan | None:
    """Plan of a command that has not ended; None: it had none, because a refusal was expected."""
    plan = trace.accepted.plan if trace.accepted is not None else None
    try:
        return msgspec.convert(plan, Plan)
    except msgspec.ValidationError:
        return None

"""Dependencies of the endpoints: what a service needs to answer."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context, DecisionSettings
from controlplane.core.order import Ends
from controlplane.core.plan import GroupOffsets, Outcome, Plan, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views.group_progress import GroupProgress
from controlplane.event_loop import retrieve_exception
from controlplane.logger_levels import Loggers
from controlplane.logs.log import LogError, ReadableLog
from controlplane.projection.change_feed import ChangeEvent
from controlplane.projection.past_states import PastState
from controlplane.rest.bodies.body_processes import BodyProcesses
from controlplane.rest.endpoints.router import EndpointSet
from controlplane.rest.errors import WorkerAnswer

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

WorkerMetrics = Callable[[], Iterable["Metric"]]
"""Reader of the metrics of connectors that run in this process."""


class States(Protocol):
    """Source of states of a log; implemented by `Follower`."""

    @property
    def failure(self) -> LogError | None:
        """Reason why the log is not followed at present; None if it is followed."""
        ...

    @property
    def moves(self) -> int:
        """Counter that changes whenever the log has been read further."""
        ...

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been read."""
        ...

    async def state(self, profile: Profile) -> ClusterState:
        """Return the state after all records read so far, as a release folds it."""
        ...

    async def state_at(self, moment: str, profile: Profile) -> PastState:
        """Return the state at a moment of the past."""
        ...


class Changes(Protocol):
    """Source of live changes of a log; implemented by `ChangeFeed`."""

    def may_watch(self, profile: Profile) -> bool:
        """Return True if another client may watch with this release."""
        ...

    def changes(
        self, since: Ends | None = None, profile: Profile | None = None
    ) -> AsyncGenerator[ChangeEvent, None]:
        """Yield every change from the first iteration on, or since these end offsets."""
        ...


class Planner(Protocol):
    """Plans commands without writing (dry run)."""

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """Return the plan of a command; nothing is written.

        A hook is a connector's `alterOffsets` (KIP-875). With `believe_hooks`, no hook in Python is
        called: each is assumed to agree.
        """
        ...


class SinkGroups(Protocol):
    """Reads the consumer groups of sinks."""

    async def group_offsets(self, connector: str) -> GroupOffsets | None:
        """Read the committed offsets of a sink connector's consumer group.

        None: the log stores no groups, and no Kafka cluster exists that could be asked instead.

        Raises:
            ExternalActionFailed: the broker cannot be reached.
        """
        ...

    async def group_progress(self, connector: str) -> GroupProgress | None:
        """Read the committed offsets with the ends of their partitions; None as above.

        Raises:
            ExternalActionFailed: the broker cannot be reached.
        """
        ...


class Commands(Planner, Protocol):
    """Runs commands; implemented by the embedded `ControlPlane` and by `AttachedPlane`.

    The embedded plane writes the log itself. The attached plane sends requests to the workers of a
    Connect cluster, which is then an attached cluster.
    """

    @property
    def failure(self) -> LogError | None:
        """Permanent failure after which commands are refused; None while they work."""
        ...

    async def trouble(self) -> LogError | None:
        """Probe the log; return the error that would fail a command now, or None."""
        ...

    async def carry_out(
        self,
        command: AnyCommand,
        *,
        principal: str,
        key: str | None,
        profile: Profile | None,
    ) -> Outcome | Rejected | WorkerAnswer:
        """Run a command to its end, once per idempotency key, as a worker of this release.

        An answer of a worker itself is passed on unchanged.
        """
        ...

    def command_of(self, key: str) -> AnyCommand | None:
        """Return the command that was accepted under an idempotency key, while it is remembered."""
        ...

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """Read the committed offsets of a sink connector's consumer group.

        Raises:
            ExternalActionFailed: the broker cannot be reached.
        """
        ...


@runtime_checkable
class HasRemoteStates(Protocol):
    """Commands that also read a source's offsets from the cluster to which its producer writes."""

    async def with_remote_offsets(self, state: ClusterState, connector: str) -> ClusterState:
        """Return a state with these offsets; unchanged if a source has none there.

        Raises:
            ExternalActionFailed: they cannot be read.
        """
        ...


@runtime_checkable
class WritesEndsLater(Protocol):
    """Commands that may be answered before their "finished" records are in the command topic."""

    async def write_ends(self) -> None:
        """Write the "finished" records of all answered commands, and read them back."""
        ...


class Workers(Protocol):
    """Workers of the cluster, which answer about their plugins; implemented by `AttachedPlane`."""

    async def pass_on(self, method: str, target: str, body: bytes | None) -> WorkerAnswer:
        """Send a request that changes nothing to any worker; return its answer.

        Raises:
            LogUnavailable: no worker has answered.
        """
        ...


class SharedStateRead:
    """Read of the present state that concurrent requests share.

    It continues after a timeout: a long log is not read anew for each request.
    """

    def __init__(self, follower: States, profile: Profile) -> None:
        self._follower = follower
        self._profile = profile
        self._reading: asyncio.Task[ClusterState] | None = None

    async def wait(self) -> None:
        """Wait for the present read, or for a new one.

        Raises:
            LogError: the state is not loaded yet and the log cannot be read.
        """
        if self._reading is None or self._reading.done():
            read = self._follower.state(self._profile)
            self._reading = asyncio.create_task(read)
            self._reading.add_done_callback(retrieve_exception)
        await asyncio.shield(self._reading)


class Service(NamedTuple):
    """One cluster as this process serves it; `compose` builds it."""

    follower: States
    log: ReadableLog
    """Log for reading past states."""
    watching: Changes
    dialect: Profile
    """Default release for requests that name none."""
    state_read: SharedStateRead
    """Read of the state of `dialect`, for `/health`."""
    bodies: BodyProcesses
    """Processes that read large bodies; their number is limited per service."""
    plugins: Plugins
    worker: DecisionSettings
    """Settings of the worker that the service represents."""
    commands: Commands | None = None
    """Runner of commands; None if the service is read-only."""
    planner: Planner | None = None
    """Planner of dry runs for a read-only service; None disables them."""
    groups: SinkGroups | None = None
    """Reader of consumer groups; None: there are none. A service with `commands` uses it for
    progress only, because `commands` reads committed offsets."""
    cluster_id: str | None = None
    loggers: Loggers | None = None
    """Loggers of this process; None hides them."""
    endpoint_set: EndpointSet = EndpointSet.ALL
    metrics: bool = False
    """True if `/metrics` is served in front of the application."""
    worker_metrics: WorkerMetrics | None = None
    """Metrics of connectors that run in this process; None: none runs here."""
    workers: Workers | None = None
    """Workers that answer about plugins and validate configs; None: this service does."""
    trail: ReadableLog | None = None
    """Log with the command topic; None: `log` has it."""
    dialect_origin: str | None = None
    """Origin of `dialect`, for notices about requests that it lacks; None: no such notices."""

    def behind_metrics(self) -> "Service":
        """Return the service with `/metrics` in front of its application."""
        return self._replace(metrics=True)

    def admin_only(self) -> "Service":
        """Return the service as the admin listener serves it."""
        return self._replace(endpoint_set=EndpointSet.ADMIN)

    async def state_at(self, moment: str | None, profile: Profile) -> PastState:
        """Return the state of a worker of a release at a moment; None: now."""
        if moment is None:
            return PastState(await self.follower.state(profile))
        return await self.follower.state_at(moment, profile)


def compose(  # noqa: PLR0913 - parts, by name
    follower: States,
    log: ReadableLog,
    context: Context,
    *,
    watching: Changes,
    commands: Commands | None = None,
    planner: Planner | None = None,
    groups: SinkGroups | None = None,
    cluster_id: str | None = None,
    loggers: Loggers | None = None,
    endpoint_set: EndpointSet = EndpointSet.ALL,
    dialect: Profile | None = None,
    worker_metrics: WorkerMetrics | None = None,
    workers: Workers | None = None,
    trail: ReadableLog | None = None,
    dialect_origin: str | None = None,
) -> Service:
    """Build the service of a log; every program that serves a log calls this.

    `context` supplies the release, the worker's settings and the connector classes; decisions and
    responses thus depend on the same values. `dialect` is the release at the root; None: that of
    `context`.
    """
    dialect = dialect or context.profile
    return Service(
        follower,
        log,
        watching,
        dialect,
        SharedStateRead(follower, dialect),
        BodyProcesses(),
        context.plugins,
        context.worker,
        commands=commands,
        planner=planner,
        groups=groups,
        cluster_id=cluster_id,
        loggers=loggers,
        endpoint_set=endpoint_set,
        worker_metrics=worker_metrics,
        workers=workers,
        trail=trail,
        dialect_origin=dialect_origin,
    )

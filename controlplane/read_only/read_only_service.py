"""Read-only service of a log, for `serve` and for commands about a log."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import msgspec

from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide.prediction import partition_assumptions
from controlplane.core.plan import Plan, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logger_levels import Loggers
from controlplane.logs.log_factory import Opened
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.notices import Notices
from controlplane.read_only.forecast import forecast
from controlplane.rest.endpoints.table import EndpointSet
from controlplane.rest.service import Service, compose


class ReadOnlyPlanner:
    """Plans commands by the state of a follower; writes nothing (`rest.service.Planner`)."""

    def __init__(self, follower: Follower, context: Context, assumed: Iterable[str] = ()) -> None:
        """`assumed`: topics that may have more partitions than the log shows."""
        self._follower = follower
        self._context = context
        self._assumed = tuple(assumed)

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """Plan a command as the log's writer would, with the assumptions behind the plan."""
        context = msgspec.structs.replace(self._context, profile=profile or self._context.profile)
        state = await self._follower.state(context.profile)
        decided = forecast(state, command, context, believe_hooks=believe_hooks, advises=False)
        if isinstance(decided.decision, Rejected):
            return decided.decision
        partitions = partition_assumptions(decided.decision, state, self._assumed)
        return msgspec.structs.replace(decided.decision, assumed=(*decided.assumed, *partitions))


@asynccontextmanager
async def reading_service(  # noqa: PLR0913 - settings, by name
    opened: Opened,
    topics: Topics,
    context: Context,
    *,
    live: bool,
    limits: FollowerLimits,
    notices: Notices | None = None,
    loggers: Loggers | None = None,
    endpoint_set: EndpointSet = EndpointSet.ALL,
) -> AsyncIterator[Service]:
    """Follow an open log and answer from it; commands are planned, none is executed.

    A `live` follower reads on as the log grows; otherwise it stops at the current end.
    """
    follower = Follower(
        opened.log,
        topics=topics,
        exactly_once=context.worker.exactly_once_source,
        live=live,
        limits=limits,
        notices=notices,
    )
    async with follower:
        yield compose(
            follower,
            opened.log,
            context,
            watching=ChangeFeed(follower, opened.log, context.profile),
            planner=ReadOnlyPlanner(follower, context, opened.assumed),
            cluster_id=opened.cluster_id,
            loggers=loggers,
            endpoint_set=endpoint_set,
        )

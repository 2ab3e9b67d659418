"""Service of a log that this process only reads, for `serve` and for commands about a log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controlplane.core.context import Context
from controlplane.core.state import Topics
from controlplane.logger_levels import Loggers
from controlplane.logs.log_factory import Opened
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.notices import Notices
from controlplane.read_only.planner import ReadOnlyPlanner
from controlplane.rest.endpoints.table import EndpointSet
from controlplane.rest.service import Service, compose


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
    part: EndpointSet = EndpointSet.ALL,
) -> AsyncIterator[Service]:
    """Follow an open log and answer from it; commands are planned, none is executed.

    A `live` follower goes on reading as the log grows; otherwise it stops at the present end.
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
            part=part,
        )

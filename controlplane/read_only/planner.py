"""Plans for whoever asks over HTTP, of a log that is only read here."""

from collections.abc import Iterable

import msgspec

from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.decide.assumptions import partition_assumptions
from controlplane.core.plan import Plan, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.projection.follower import Follower
from controlplane.read_only.forecast import foresee


class ReadOnlyPlanner:
    """Decides commands by what a follower knows, and carries none out (`rest.calls.Planner`)."""

    def __init__(self, follower: Follower, context: Context, assumed: Iterable[str] = ()) -> None:
        """`assumed` are topics that may have more partitions than the log shows."""
        self._follower = follower
        self._context = context
        self._assumed = tuple(assumed)

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """Plan a command as the log's writer would, with the assumptions behind the plan."""
        context = msgspec.structs.replace(self._context, profile=profile or self._context.profile)
        state = await self._follower.state(context.profile)
        found = foresee(state, command, context, believe_hooks=believe_hooks, advises=False)
        if isinstance(found.decision, Rejected):
            return found.decision
        partitions = partition_assumptions(found.decision, state, self._assumed)
        return msgspec.structs.replace(found.decision, assumed=(*found.assumed, *partitions))

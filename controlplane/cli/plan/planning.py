"""Plans for whoever asks over HTTP, of a log that is only read here."""

from collections.abc import Iterable

import msgspec

from controlplane.cli.plan.foreseen import foresee
from controlplane.core.assumptions import of_partitions
from controlplane.core.commands import AnyCommand
from controlplane.core.context import Context
from controlplane.core.plan import Plan, Rejected
from controlplane.core.profiles import Profile
from controlplane.follower import Follower


class Planning:
    """Decides commands by what a follower knows, and carries none out (`rest.calls.Planner`)."""

    def __init__(self, follower: Follower, context: Context, assumed: Iterable[str] = ()) -> None:
        """`assumed` are topics that may have more partitions than the log shows."""
        self._follower = follower
        self._context = context
        self._assumed = tuple(assumed)

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None, believe_hooks: bool
    ) -> Plan | Rejected:
        """What the log's writer would do for it, with what had to be assumed of the world."""
        context = msgspec.structs.replace(self._context, profile=profile or self._context.profile)
        state = await self._follower.state(context.profile)
        found = foresee(state, command, context, believe_hooks=believe_hooks, advises=False)
        if isinstance(found.decision, Rejected):
            return found.decision
        partitions = of_partitions(found.decision, state, self._assumed)
        return msgspec.structs.replace(found.decision, assumed=(*found.assumed, *partitions))

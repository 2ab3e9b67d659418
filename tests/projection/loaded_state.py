"""State that a load of a log gives."""

from typing import Any

from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import ReadableLog
from controlplane.projection.loader import load

_KIP = Profile.of(KIP)


async def state_of(log: ReadableLog, profile: Profile = _KIP, **how: Any) -> ClusterState:
    """State of a worker that reads this log; `how` are arguments of `load`."""
    return (await load(log, profile, **how)).snapshot()

"""Committed offsets that several tasks of a source read again at their start."""

import asyncio
from functools import partial

from controlplane.core.fold import fold
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.worker.offsets.source_offsets import SourceOffsetStore


async def test_two_tasks_read_at_the_same_time() -> None:
    """The second reading ends before the first; a commit between their ends is not lost."""
    state = fold([], Profile.of(KIP))
    store = SourceOffsetStore(state, "c", {})
    released = [asyncio.Event(), asyncio.Event()]

    async def read(number: int) -> ClusterState:
        await released[number].wait()
        return state

    readings = [asyncio.create_task(store.read_again(partial(read, number))) for number in (0, 1)]
    await asyncio.sleep(0)
    released[1].set()
    await readings[1]
    store.committed(await store.batches([({"part": 1}, {"at": 7})]))
    released[0].set()
    await readings[0]
    assert store.get({"part": 1}) == {"at": 7}

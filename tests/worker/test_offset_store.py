"""Committed offsets of a source, which its tasks read at their start."""

import asyncio
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import pytest

from controlplane.core.context import DecisionSettings
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.plane import Settings
from controlplane.worker.offsets import source_offsets
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from tests.worker.scripted_source import ScriptedSource, begin
from tests.worker.worker_fixture import QUICK, running


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


async def test_the_offsets_of_a_state_are_decoded_outside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source with very many offsets starts without holding up other tasks and requests."""
    decoded, in_loop = source_offsets._offsets_in, list[bool]()

    def noted(*arguments: Any) -> Mapping[Any, Any]:
        in_loop.append(threading.current_thread() is threading.main_thread())
        return decoded(*arguments)

    monkeypatch.setattr(source_offsets, "_offsets_in", noted)
    once = DecisionSettings(exactly_once_source=True)
    async with running(
        ScriptedSource,
        runtime=msgspec.structs.replace(QUICK, exactly_once=True),
        settings=Settings(exactly_once=True, worker=once),
    ) as worker:
        await begin(worker)
    assert in_loop == [False, False]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), -0.0, 1e300])
async def test_a_partition_with_an_odd_number_is_found_after_a_restart(number: float) -> None:
    """JSON has no such number, or another form of it; the task finds its offset all the same."""
    profile = Profile.of(KIP)
    store = SourceOffsetStore(fold([], profile), "c", {})
    batches = await store.batches([({"part": number}, {"at": 7})])
    written = [
        Entry(draft.topic, 0, offset, 0, draft.key, draft.value)
        for offset, draft in enumerate(batches.primary)
    ]
    again = SourceOffsetStore(fold(written, profile), "c", {})
    assert again.get({"part": number}) == {"at": 7}

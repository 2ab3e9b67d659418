"""Compaction beside a running capture, in a process of its own.

A look (one round of a continuous capture) never waits for a compaction. Appends and merges of an
archive may overlap. In an object store without conditional puts, a simultaneous append and merge
may both withdraw. Then the next look, one `--every` later, archives the records.

The process has a lower priority, and its memory is gone when it ends. A failed compaction is
reported and repeated later; the capture goes on.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from math import inf
from multiprocessing import get_context
from typing import Any, NamedTuple

from controlplane.event_loop import cancel, now_ms
from controlplane.terminal.output import note
from replay.archive.manifest import read_chain
from replay.archive.merges.unnamed_files import Removal, remove_replaced
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.cli.execution.compactions import CompactionOptions, CompactionResult, compact
from replay.cli.options.background import BackgroundOptions
from replay.cli.options.durations import option_duration
from replay.engine.executors import end_with_parent, packed, processes_of, unheard, unpacked
from replay.progress import NoProgress

CHECK_S = 60
"""Greatest number of seconds between two checks whether a compaction is due."""

GRACE_S = 3_600
"""Seconds for which replaced files stay, so that a look or a reader in progress finds them.

The time counts from the last merge. The next check after this time removes the files; if the
capture ends before, the next compaction does. If `--compact-every` is less than two hours, the
files stay for half of its value. A time longer than `--compact-every` would never end, because each
merge restarts it.
"""

NICENESS = 10
"""Priority of the process, as `nice` has it: looks and other work come first."""


class _CompactionTask(NamedTuple):
    """Cluster to compact, for another process."""

    where: str
    settings: HadoopSettings
    cluster: str
    options: CompactionOptions


class BackgroundCompaction:
    """Compacts the clusters that a capture has archived, each every `every_s` seconds."""

    def __init__(self, store: ArchiveStore, options: BackgroundOptions) -> None:
        self._store = store
        self._options = options
        self._latest_ms: dict[str, int] = {}
        """Time of each captured cluster's last known merge or attempt, in ms since 1970.

        Without a merge, the time of its first manifest counts. While this time shows that no
        compaction is due, a check reads no manifest.
        """
        self._removals_ms: dict[str, float] = {}
        """Time from which on the replaced files of a cluster may go, in ms since 1970."""

    @property
    def retains(self) -> bool:
        """True if compactions also remove old records."""
        return self._options.retain_s is not None

    def note(self, cluster: str) -> None:
        """Add a captured cluster; it is compacted when its last merge is old enough."""
        self._latest_ms.setdefault(cluster, 0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compact during the block. At its end, stop a compaction in progress, without damage."""
        task = asyncio.create_task(self._repeat())
        try:
            yield
        finally:
            await cancel(task)

    async def _repeat(self) -> None:
        while True:
            for cluster in list(self._latest_ms):
                if await asyncio.to_thread(self.is_due, cluster):
                    await self._compact(cluster)
                elif self._removals_ms.get(cluster, inf) <= now_ms():
                    await self._remove(cluster)
            await asyncio.sleep(min(CHECK_S, self._options.every_s))

    def is_due(self, cluster: str) -> bool:
        """True if the last merge and the last attempt are `every_s` or more ago.

        In an archive without a merge, the first manifest takes the place of the last merge.
        """
        limit_ms = now_ms() - self._options.every_s * 1_000
        if self._latest_ms[cluster] > limit_ms:
            return False
        try:
            chain = read_chain(self._store, cluster)
        except Exception:  # noqa: BLE001 - the compaction fails, too, and reports the error
            return True
        if not chain.manifests:
            return False
        self._latest_ms[cluster] = max(self._latest_ms[cluster], chain.manifests[0].written_at_ms)
        return self._latest_ms[cluster] <= limit_ms

    async def _compact(self, cluster: str) -> None:
        """Compact a cluster in another process, and report the result."""
        self._latest_ms[cluster] = now_ms()
        task = self._task(cluster)
        try:
            (result,) = unpacked(await _elsewhere(_merging, task), _merging, task)
        except Exception as error:  # noqa: BLE001 - whatever it is, the capture goes on
            again = option_duration(self._options.every_s)
            note(f"{cluster}: not compacted: {_reason(error)}; it is tried again in {again}")
        else:
            _report(result)
            if result.removal.remaining:
                self._removals_ms[cluster] = now_ms() + 1_000 * task.options.grace_s

    async def _remove(self, cluster: str) -> None:
        """Remove the files that the last merge has replaced, in another process."""
        del self._removals_ms[cluster]
        task = self._task(cluster)
        try:
            unpacked(await _elsewhere(_removing, task), _removing, task)
        except Exception as error:  # noqa: BLE001 - whatever it is, the capture goes on
            why = _reason(error)
            note(f"{cluster}: replaced files remain: {why}; the next compaction removes them")

    def _task(self, cluster: str) -> _CompactionTask:
        grace_s = min(GRACE_S, self._options.every_s / 2)
        options = CompactionOptions(self._options.retain_s, grace_s)
        return _CompactionTask(self._store.where, self._store.settings, cluster, options)


def _reason(error: Exception) -> str:
    is_killed = isinstance(error, BrokenProcessPool)
    return "its process was killed" if is_killed else str(error) or repr(error)


async def _elsewhere(
    work: Callable[[_CompactionTask], Iterator[Any]], task: _CompactionTask
) -> bytes | None:
    """Run a task in a new process; a cancellation ends the process."""
    pool = ProcessPoolExecutor(1, get_context("spawn"), _begin_process)
    try:
        # The child inherits the mask: only this process handles Ctrl-C.
        with unheard(signal.SIGINT):
            future = pool.submit(packed, work, task)
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        for process in processes_of(pool):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False)  # looks do not wait for the end of the process


def _begin_process() -> None:
    os.nice(NICENESS)
    end_with_parent()


def _merging(task: _CompactionTask) -> Iterator[CompactionResult]:
    store = open_store(task.where, task.settings)
    yield compact(store, task.cluster, task.options, NoProgress())


def _removing(task: _CompactionTask) -> Iterator[Removal]:
    store = open_store(task.where, task.settings)
    yield remove_replaced(store, task.cluster, task.options.grace_s)


def _report(result: CompactionResult) -> None:
    merge = result.merge
    if merge.merged:
        before, after = merge.files
        note(f"{merge.cluster}: compacted from {before} to {after} files, head {merge.head}")
    if merge.expired or result.leftovers:
        for sentence in result.sentences:
            note(sentence)

"""Watch of the workers' releases while a service runs.

A service plans and answers as one release, which it finds out at its start. After an upgrade of the
workers, an operator must restart it. During a rolling upgrade the workers run several releases. So
a change counts once all workers that answer run the same other release.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from controlplane.attached.cluster_check import IdentifiedCluster, identify_worker
from controlplane.attached.connect_client import ConnectClient, WorkerInfo
from controlplane.core.releases.profiles import UnknownRelease, resolve
from controlplane.notices import Notices

RELEASE_CHANGED = "workers_release_changed"
"""Log event: all workers run another release than the service plans as."""


class ReleaseWatch:
    """Warns once about each release that all workers run, and that the service does not plan as.

    A release that the user names is not watched.
    """

    def __init__(self, cluster: IdentifiedCluster, notices: Notices) -> None:
        self._cluster = cluster
        self._planned = cluster.profile.release
        self._versions = {worker.url: worker.version for worker in cluster.workers}
        """Versions that the workers have reported last, by URL."""
        self._notices = notices
        self._reported = self._planned
        """Release that all workers ran at the last change; a warning was written about it."""

    def update(self, worker: WorkerInfo) -> None:
        """Take over the version of a worker that has identified itself again."""
        self._versions[worker.url] = worker.version
        self._report()

    @asynccontextmanager
    async def running(self, client: ConnectClient, interval_ms: int) -> AsyncIterator[None]:
        """Identify all workers of a client in every interval within the block."""
        if self._cluster.is_named:
            yield
            return
        task = asyncio.create_task(self._repeat(client, interval_ms / 1_000), name="release watch")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _repeat(self, client: ConnectClient, interval_s: float) -> None:
        identify = partial(identify_worker, client, self._cluster)
        while True:
            await asyncio.sleep(interval_s)
            answers = await asyncio.gather(*map(identify, client.names), return_exceptions=True)
            # A worker that does not answer may have been removed, so its last version is forgotten.
            self._versions = {
                answer.url: answer.version for answer in answers if isinstance(answer, WorkerInfo)
            }
            self._report()

    def _report(self) -> None:
        releases = {_release(version) for version in self._versions.values()}
        if len(releases) != 1 or self._cluster.is_named:
            return  # no worker answers, the upgrade still goes on, or nothing is watched
        (release,) = releases
        if release == self._reported:
            return
        self._reported = release
        if release != self._planned:
            self._notices.warning(
                RELEASE_CHANGED,
                planned_as=self._planned,
                workers_run=release,
                advice="restart this service: it plans as the release of its start",
            )


def _release(version: str) -> str:
    """Release as which a version is read; the version itself if it is no known release."""
    try:
        return resolve(version).profile.release
    except UnknownRelease:
        return version

"""Admission of workers: only workers that belong to the cluster get requests."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

from controlplane.logs.log import LogError

WorkerCheck = Callable[[str, bool], Awaitable[LogError | None]]
"""Returns the reason why the worker with a URL gets no requests; None: it belongs to the cluster.

The flag is True if the worker's connectors have been compared with the topics before.
`LogUnavailable` means that a later check may succeed; `LogNotUsable`: the worker does not belong.
"""


class _AdmissionCheck:
    """Check of one worker. Requests that wait for it share its refusal."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held during the check."""
        self.refusal: LogError | None = None
        """Refusal of the last check."""


class WorkerAdmission:
    """Workers that may get requests, by URL.

    Every other worker is checked before its first request. A worker that gave no answer is checked
    again before its next request. A worker of another cluster may have its address by then.
    """

    def __init__(self, compared: Iterable[str], check: WorkerCheck) -> None:
        """`compared`: workers that have been checked."""
        self._check = check
        self._compared = set(compared)
        self._admitted = set(self._compared)
        self._checks: defaultdict[str, _AdmissionCheck] = defaultdict(_AdmissionCheck)

    async def refusal(self, name: str) -> LogError | None:
        """Return the reason why a worker gets no request; None: it is admitted."""
        if name in self._admitted:
            return None
        check = self._checks[name]
        has_waited = check.lock.locked()
        async with check.lock:
            if name in self._admitted:
                return None
            if has_waited and check.refusal is not None:
                return check.refusal
            check.refusal = None
            check.refusal = await self._check(name, name in self._compared)
            if check.refusal is None:
                self._compared.add(name)
                self._admitted.add(name)
            return check.refusal

    def forget(self, name: str) -> None:
        """Check a worker again before its next request: it gave no answer."""
        self._admitted.discard(name)

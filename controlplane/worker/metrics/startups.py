"""Counts of starts of connectors and tasks (Kafka: `WorkerMetricsGroup`)."""

from time import monotonic

from controlplane.worker.metrics.windows import Clock, Distribution


class StartupCounts:
    """Starts of the connectors of a worker, or of its tasks, since the worker began."""

    def __init__(self, clock: Clock = monotonic) -> None:
        self.outcomes = Distribution(clock)
        """1 for a start that succeeded, 0 for one that failed."""

    def count(self, *, succeeded: bool) -> None:
        """Count a start, by its outcome."""
        self.outcomes.record(float(succeeded))

    @property
    def attempts(self) -> int:
        """Number of starts that succeeded or failed."""
        return self.outcomes.count

    @property
    def successes(self) -> int:
        """Number of starts that succeeded."""
        return int(self.outcomes.total)

    @property
    def failures(self) -> int:
        """Number of starts that failed."""
        return self.attempts - self.successes


class Startup:
    """Start of one connector or task. Its first outcome counts; a later failure does not."""

    def __init__(self, counts: StartupCounts) -> None:
        self._counts = counts
        self._counted = False

    def succeeded(self) -> None:
        """Count a success, unless an outcome was counted."""
        self._count(succeeded=True)

    def failed(self) -> None:
        """Count a failure, unless an outcome was counted."""
        self._count(succeeded=False)

    def _count(self, *, succeeded: bool) -> None:
        if not self._counted:
            self._counted = True
            self._counts.count(succeeded=succeeded)


class WorkerStartups:
    """Starts of connectors and of tasks."""

    def __init__(self) -> None:
        self.connectors = StartupCounts()
        self.tasks = StartupCounts()

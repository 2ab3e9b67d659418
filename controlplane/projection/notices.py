"""Reports of background work: outages of the log, upkeep that failed, recovered commands."""

from typing import Any, Protocol


class Notices(Protocol):
    """Receives notices for operators; a structlog logger fits."""

    def info(self, event: str, **facts: Any) -> Any:
        """Report a recovery."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Report a failure that will be retried."""
        ...

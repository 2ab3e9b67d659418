"""Interface for notices of background work: log outages, failed upkeep, recovered commands."""

from typing import Any, Protocol


class Notices(Protocol):
    """Receives notices for operators; a structlog logger fits."""

    def info(self, event: str, **facts: Any) -> Any:
        """Report a recovery; `facts` are the fields of the log event."""
        ...

    def warning(self, event: str, **facts: Any) -> Any:
        """Report a failure; `facts` are the fields of the log event."""
        ...

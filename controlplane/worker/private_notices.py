"""Log lines without the values of config providers."""

from collections.abc import Callable
from typing import Any

from controlplane.projection.notices import Notices


class PrivateNotices:
    """Hides secrets in the texts of notices (`Notices`), then passes them on."""

    def __init__(self, notices: Notices, hidden: Callable[[str], str]) -> None:
        self._notices = notices
        self._hidden = hidden

    def info(self, event: str, **facts: Any) -> None:
        """Report a recovery."""
        self._notices.info(event, **self._without_secrets(facts))

    def warning(self, event: str, **facts: Any) -> None:
        """Report a failure that will be retried."""
        self._notices.warning(event, **self._without_secrets(facts))

    def _without_secrets(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._hidden(fact) if isinstance(fact, str) else fact
            for name, fact in facts.items()
        }

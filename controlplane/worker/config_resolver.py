"""Connector configs as authors get them: references to config providers resolved (KIP-297).

The log keeps the references. The values appear in no answer, status or trace.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from controlplane.connect.errors import ConnectError
from controlplane.projection.notices import Notices
from controlplane.settings.errors import BadValue
from controlplane.settings.providers import Providers

_REFERENCE = "${"

SECRET_CHARACTERS = 3
"""Least length of a value that is hidden: hiding each short one would make a trace unreadable."""


class ConfigResolver:
    """Resolves the configs of connectors and tasks."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._secrets: set[str] = set()
        self._lock = Lock()
        """Tasks resolve their configs in their own threads."""

    def resolved(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Return a config with all references replaced; null values are left out.

        Raises:
            ConnectError: a provider fails.
        """
        return {
            key: self._value(key, str(value)) for key, value in config.items() if value is not None
        }

    def _value(self, key: str, text: str) -> str:
        if _REFERENCE not in text:
            return text
        try:
            value, secrets = self._providers.of_connector(key, text)
        except BadValue as failure:
            raise ConnectError(str(failure)) from None
        with self._lock:
            self._secrets |= {
                form
                for secret in secrets
                for form in _forms(secret)
                if len(form) >= SECRET_CHARACTERS
            }
        return value

    def referring(
        self, config: Mapping[str, Any], task_configs: Sequence[Mapping[str, str | None]]
    ) -> list[dict[str, str | None]]:
        """Return task configs in which values of the connector config are references again.

        Kafka: `AbstractHerder#reverseTransform`.

        Raises:
            ConnectError: a provider fails.
        """
        references = {
            key: (str(value), self._value(key, str(value)))
            for key, value in config.items()
            if value is not None and _REFERENCE in str(value)
        }
        return [
            {
                key: references[key][0] if references.get(key, ("", None))[1] == value else value
                for key, value in task_config.items()
            }
            for task_config in task_configs
        ]

    def hidden(self, text: str) -> str:
        """Return a text without the values of providers."""
        with self._lock:
            secrets = sorted(self._secrets, key=len, reverse=True)
        for secret in secrets:
            text = text.replace(secret, "[hidden]")
        return text


def _forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which a message may show a value."""
    bare = secret.strip()
    return secret, bare, repr(secret)[1:-1], repr(bare)[1:-1]


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

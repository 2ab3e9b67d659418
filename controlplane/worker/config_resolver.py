"""Connector configs as authors get them: references to config providers resolved (KIP-297).

The log keeps the references. The values appear in no answer, status or trace.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.projection.notices import Notices
from controlplane.settings.errors import BadValue
from controlplane.settings.providers import Providers

_REFERENCE = "${"

SECRET_CHARACTERS = 3
"""Least length of a value that is hidden: hiding each short one would make a trace unreadable."""


SECRETS_KEPT = 100
"""Forms of values that are hidden, by reference: values that expire are followed by ever new ones.
"""


class ResolvedReferences(NamedTuple):
    """A config with all references replaced."""

    config: dict[str, str]
    ttls_ms: Mapping[str, int]
    """Lifetimes of its values that expire, by provider and path."""


class ConfigResolver:
    """Resolves the configs of connectors and tasks."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._secrets: dict[str, deque[str]] = {}
        """Values in the forms in which a text may show them, by the text that refers to them."""
        self._lock = Lock()
        """Tasks resolve their configs in their own threads."""

    def resolved(self, config: Mapping[str, Any]) -> ResolvedReferences:
        """Return a config with all references replaced; null values are left out.

        Raises:
            ConnectError: a provider fails.
        """
        ttls_ms: dict[str, int] = {}
        values = {
            key: self._value(key, str(value), ttls_ms)
            for key, value in config.items()
            if value is not None
        }
        return ResolvedReferences(values, ttls_ms)

    def _value(self, key: str, text: str, ttls_ms: dict[str, int]) -> str:
        """Return a value with its references replaced, and note the lifetimes of the values."""
        if _REFERENCE not in text:
            return text
        try:
            value, secrets, expiring = self._providers.of_connector(key, text)
        except BadValue as failure:
            raise ConnectError(str(failure)) from None
        ttls_ms |= expiring
        with self._lock:
            kept = self._secrets.setdefault(text, deque(maxlen=SECRETS_KEPT))
            kept += {
                form
                for secret in secrets
                for form in _forms(secret)
                if len(form) >= SECRET_CHARACTERS and form not in kept
            }
        return value

    def referring(
        self, config: Mapping[str, Any], task_configs: Sequence[Mapping[str, str | None]]
    ) -> list[dict[str, str | None]]:
        """Return task configs in which values of the connector config are references again.

        So are values that a provider has given earlier: the next one may be different. Kafka:
        `AbstractHerder#reverseTransform`, which also replaces what the author has changed.

        Raises:
            ConnectError: a provider fails.
        """
        references = {
            key: (str(value), self._value(key, str(value), {}))
            for key, value in config.items()
            if value is not None and _REFERENCE in str(value)
        }
        return [
            {
                key: references[key][0]
                if key in references and self._is_of_provider(value, references[key][1])
                else value
                for key, value in task_config.items()
            }
            for task_config in task_configs
        ]

    def _is_of_provider(self, value: str | None, present: str) -> bool:
        """True if a value is the present one of a reference, or contains an earlier one."""
        return value == present or (value is not None and self.hidden(value) != value)

    def hidden(self, text: str) -> str:
        """Return a text without the values of providers."""
        with self._lock:
            forms = {form for kept in self._secrets.values() for form in kept}
        secrets = sorted(forms, key=len, reverse=True)
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

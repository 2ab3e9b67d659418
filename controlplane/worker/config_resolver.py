"""Connector configs as authors get them: references to config providers resolved (KIP-297).

The log keeps the references. Answers, statuses and traces hide values of at least
`SECRET_CHARACTERS`, but only the newest `VALUES_KEPT` of each reference.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import chain, islice
from threading import Lock
from typing import Any, NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.event_loop import in_daemon_thread
from controlplane.failure_text import MAX_CHARACTERS, around_gap, shortened
from controlplane.notices import Notices
from controlplane.settings.config_references import START, references_in, replace_references
from controlplane.settings.errors import BadValue
from controlplane.settings.providers import Providers, ResolvedText
from controlplane.worker.secret_index import (
    ESCAPE_CHARACTERS,
    SECRET_CHARACTERS,
    SecretIndex,
    Span,
    bare_text,
    forms_of,
)

WARNED_MAX = 10
"""Maximum number of warnings of one kind about the references of one value."""

LINE_CHARACTERS = 8
"""Minimum length of a line to hide, in a value of several lines.

A shorter line, such as `}`, is no secret.
"""

LINES_HIDDEN = 200
"""Maximum number of lines of a value that are hidden line by line.

Lines beyond this number are hidden only where a message shows the whole value. Each line takes
memory. A private key has fewer lines; a bundle of certificates may have thousands.
"""

KEY_CHARACTERS = 8
"""Minimum length of a provider's value that is refused in a key of a task config.

Blanks around the value do not count. A shorter value, such as `batch`, may be a part of any key by
chance.
"""

_PEM_LABEL = "-----"
"""Start of lines that are the same in every PEM key (BEGIN, END): these lines are not hidden."""

RESOLUTION_TIMEOUT_S = 60.0
"""Longest wait for config providers in a command or before tasks start.

For the hook `alter_offsets` of a connector, `controller.hook.timeout.ms` limits the hook and the
wait for providers together.
"""

UNANSWERED_MAX = 100
"""Maximum number of threads that config providers may block after their callers have gone."""

VALUES_KEPT = 1_000
"""Maximum number of values per reference: a provider may return new values without end."""

FORMS_KEPT = 100
"""Limit of forms (`HiddenForms`) per reference, counted from its newest value to its oldest.

Once the newer values have this many forms, older ones are hidden only as a whole, not line by line.
"""


class ResolvedReferences(NamedTuple):
    """A config with its references replaced."""

    config: dict[str, str]
    ttls_ms: Mapping[str, int]
    """Lifetimes of its values that expire, by provider and path."""


class HiddenForms(NamedTuple):
    """Forms in which messages may show a value of a provider."""

    whole: frozenset[str]
    """Forms of the whole value."""
    lines: frozenset[str]
    """Further forms, of its first lines."""


class ConfigResolver:
    """Resolves the configs of connectors and tasks."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self.unanswered: set[Future[ResolvedReferences]] = set()
        """Resolutions that no caller awaits any more, and whose providers have not answered."""
        self._values: dict[str, dict[str, HiddenForms]] = {}
        """For each reference, its values from old to new. Old ones have no `lines`."""
        self._index = SecretIndex()
        """All forms of all values."""
        self._lock = Lock()
        """Guards `_values` and `_index`.

        Tasks resolve their configs in their own threads, and the event loop waits for this lock. So
        no thread calls a provider or builds forms while it holds the lock.
        """

    def resolved(
        self, config: Mapping[str, Any], notices: Notices | None = None
    ) -> ResolvedReferences:
        """Return a config with its references replaced; null values are left out.

        A reference stays if no provider has its value, or if a limit of its provider forbids it.
        Such limits are `allowed.paths` and `allowlist.pattern`. `notices`: receives warnings about
        references that stay, at most `WARNED_MAX` of each kind per value.

        Raises:
            ConnectError: a provider fails.
        """
        ttls_ms: dict[str, int] = {}
        values: dict[str, str] = {}
        for key, value in config.items():
            if value is None:
                continue
            resolved = self._resolved_text(key, str(value))
            values[key] = resolved.text
            ttls_ms |= resolved.ttls_ms
            if notices is not None:
                _warn(notices, key, resolved)
        return ResolvedReferences(values, ttls_ms)

    def _resolved_text(self, key: str, text: str) -> ResolvedText:
        """Return a value with its references replaced, and note its secrets."""
        if START not in text:
            return ResolvedText(text, {}, {}, {}, {})
        try:
            resolved = self._providers.of_connector(key, text)
        except BadValue as failure:
            raise ConnectError(str(failure)) from None
        for secret, reference in resolved.secrets.items():
            self._keep(secret, reference)
        return resolved

    def _keep(self, secret: str, reference: str) -> None:
        """Keep a value as the newest of its reference; the newest is hidden in all forms."""
        with self._lock:
            newest = next(reversed(self._values.get(reference, {})), None)
        if secret == newest:
            return
        forms = _forms(secret)
        if not forms.whole:
            return
        with self._lock:
            values = self._values.setdefault(reference, {})
            self._index.add(chain(*forms))
            if secret in values:
                self._index.remove(chain(*values.pop(secret)))
            values[secret] = forms
            self._shorten(values)

    def _shorten(self, values: dict[str, HiddenForms]) -> None:
        """Keep a limited number of lines and values of one reference."""
        newer_forms = 0
        for value in reversed(values):
            whole, lines = values[value]
            if newer_forms >= FORMS_KEPT and lines:
                self._index.remove(lines)
                values[value] = HiddenForms(whole, frozenset())
            newer_forms += len(whole) + len(values[value].lines)
        if len(values) > VALUES_KEPT:
            self._index.remove(chain(*values.pop(next(iter(values)))))

    def referring(
        self,
        config: Mapping[str, Any],
        task_configs: Sequence[Mapping[str, str | None]],
        class_keys: Iterable[str] = (),
    ) -> list[dict[str, str | None]]:
        """Return task configs with references in place of the values of the connector's providers.

        Earlier values are replaced, too: the connector may have read one before the provider
        changed it.

        A task config may have a provided value in a form that cannot be replaced, such as an
        escaped one. Suppose that the connector config has a reference under the same key. Then the
        value of the connector config, with the reference, replaces the whole value of the task
        config. Without such a reference, the task config is refused.

        References are resolved in values only, so a provided value in a key is refused, too.
        `class_keys`: keys that the connector's class defines; they are public.

        Kafka's `AbstractHerder#reverseTransform` goes by keys. If the connector config has a
        reference under a key, Kafka replaces the whole value. A change by the connector is lost.
        Under all other keys, Kafka replaces nothing: the log has provided values in plain text.

        Raises:
            ConnectError: a provider fails, or a task config is refused.
        """
        references = {
            key: (str(value), self._resolved_text(key, str(value)).text)
            for key, value in config.items()
            if value is not None and START in str(value)
        }
        # In the order of the config: if several references have the same value, the last of them
        # replaces it.
        config_references = dict.fromkeys(
            reference.text for text, _ in references.values() for reference in references_in(text)
        )
        if not config_references:
            return [dict(task_config) for task_config in task_configs]
        self._refuse_values_in({*chain(*task_configs)} - {*config, *class_keys}, config_references)

        def stored(key: str, value: str | None) -> str | None:
            if value is None or value == config.get(key):
                return value
            written, present = references.get(key, (None, None))
            if value == present:
                return written
            try:
                return self._with_references(key, value, config_references)
            except ConnectError:
                if written is None:
                    raise
                return written

        return [
            {key: stored(key, value) for key, value in task_config.items()}
            for task_config in task_configs
        ]

    def _refuse_values_in(self, keys: Iterable[str], references: Iterable[str]) -> None:
        """Check keys of task configs.

        Raises:
            ConnectError: a key contains a provided value of at least `KEY_CHARACTERS`.
        """
        with self._lock:
            kept = [
                forms
                for text in references
                for value, forms in self._values.get(text, {}).items()
                if len(value.strip()) >= KEY_CHARACTERS
            ]
        values = SecretIndex()
        values.add(form for forms in kept for form in chain(*forms))
        for key in keys:
            if spans := values.spans(key):
                raise ConnectError(
                    f"The key {_hidden(key, spans, 0, len(key))} of a task config contains a value "
                    "of a config provider, and the log stores keys as they are. Use another key. "
                    "Or, if the value is no secret, write it in place of its reference."
                )

    def _with_references(self, key: str, value: str, references: Iterable[str]) -> str:
        """Return a value with references in place of the provided values that it contains.

        Raises:
            ConnectError: the value contains a provided one in a form that cannot be replaced.
        """
        with self._lock:
            kept = [(text, self._values.get(text, {})) for text in references]
            reference_by_secret = {
                secret: text
                for text, values in kept
                for secret in values
                if len(secret) >= SECRET_CHARACTERS and secret in value
            }
            hidden = [forms for _, values in kept for forms in values.values()]
        replaced, inserted = value, dict[str, str]()
        if reference_by_secret:
            longest_first = sorted(reference_by_secret, key=len, reverse=True)

            def reference_of(secret: re.Match[str]) -> str:
                reference = reference_by_secret[secret[0]]
                inserted[reference] = secret[0]
                return reference

            replaced = re.sub("|".join(map(re.escape, longest_first)), reference_of, value)
        # A reference and the text before it may together look like another reference.
        restored = replace_references(
            replaced, lambda reference: inserted.get(reference.text, reference.text)
        )
        # Null characters replace each reference, so that the texts before and after it do not join
        # and look like a secret.
        rest = replace_references(replaced, lambda _: "\0\0")
        texts = rest, bare_text(rest).text
        if restored != value or any(
            form in text for forms in hidden for form in chain(*forms) for text in texts
        ):
            raise ConnectError(
                f"The task config {key} has a value of a config provider that cannot be stored as "
                "a reference. Pass the value on as the provider gives it."
            )
        return replaced

    def excerpt(self, text: str) -> str:
        """Return a text without the values of config providers; omit the middle of a long text.

        In a long text, the search goes beyond each shown part, so no value is shown in part.
        """
        with self._lock:
            if len(text) <= MAX_CHARACTERS:
                return shortened(_hidden(text, self._index.spans(text), 0, len(text)))
            half = MAX_CHARACTERS // 2
            searched = half + ESCAPE_CHARACTERS * self._index.longest
            start, end = text[:searched], text[-searched:]
            start = _hidden(start, self._index.spans(start), 0, half)
            end = _hidden(end, self._index.spans(end), len(end) - half, len(end))
        return around_gap(start, end, len(text) - 2 * half)


async def resolved_in_thread(
    resolver: ConfigResolver, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return settings with their references resolved, in a thread: a provider may read a file.

    A thread whose provider does not answer is left behind.

    Raises:
        ConnectError: a provider fails, or does not answer within `RESOLUTION_TIMEOUT_S`. Or
            `UNANSWERED_MAX` earlier resolutions have no answer yet.
    """
    if not has_references(settings):
        return settings
    if len(resolver.unanswered) >= UNANSWERED_MAX:
        raise ConnectError(
            f"config providers have not answered {UNANSWERED_MAX} earlier requests: no further one "
            "is sent until they answer, or the worker is restarted"
        )
    resolution = in_daemon_thread(partial(resolver.resolved, settings), "config references")
    try:
        async with asyncio.timeout(RESOLUTION_TIMEOUT_S):
            return (await asyncio.wrap_future(resolution)).config
    except TimeoutError:
        keys = ", ".join(key for key, value in settings.items() if START in str(value))
        raise ConnectError(
            f"the config providers of {keys} have not answered in {RESOLUTION_TIMEOUT_S:g} s"
        ) from None
    finally:
        if not resolution.done():
            resolver.unanswered.add(resolution)
            resolution.add_done_callback(resolver.unanswered.discard)


def has_references(settings: Mapping[str, Any]) -> bool:
    """True if a value may contain a reference."""
    return any(START in str(value) for value in settings.values())


def _warn(notices: Notices, key: str, resolved: ResolvedText) -> None:
    """Warn about references that stay in a value, up to a limit."""
    for reference, limit in islice(resolved.refused.items(), WARNED_MAX):
        notices.warning("config_reference_refused", key=key, reference=reference, limit=limit)
    for reference, reason in islice(resolved.unresolved.items(), WARNED_MAX):
        notices.warning("config_reference_unresolved", key=key, reference=reference, reason=reason)


def _hidden(text: str, spans: Iterable[Span], first: int, last: int) -> str:
    """Hide secrets in a part of a text; a secret that is only partly in it is hidden, too."""
    parts, shown_to = list[str](), first
    for start, end in spans:
        if first < end and start < last:
            parts += text[shown_to : max(shown_to, start)], "[hidden]"
            shown_to = end
    return "".join([*parts, text[shown_to:last]])


def _forms(secret: str) -> HiddenForms:
    """Return the forms in which a message may show a value, or a line of it."""
    bare = secret.strip()
    lines = [line.strip() for line in bare.splitlines()]
    long_lines = [
        line
        for line in lines
        if len(line) >= LINE_CHARACTERS and not line.startswith(_PEM_LABEL) and line != bare
    ]
    whole = forms_of(secret) | forms_of(bare)
    line_forms = {form for line in long_lines[:LINES_HIDDEN] for form in forms_of(line)}
    return HiddenForms(frozenset(whole), frozenset(line_forms - whole))


class PrivateNotices:
    """Hides secrets in the texts of notices (`Notices`), shortens them, and passes them on."""

    def __init__(self, notices: Notices, excerpt: Callable[[str], str]) -> None:
        self._notices = notices
        self._excerpt = excerpt

    def info(self, event: str, **facts: Any) -> None:
        """Pass on the notice of a normal event, without secrets."""
        self._notices.info(event, **self._without_secrets(facts))

    def warning(self, event: str, **facts: Any) -> None:
        """Pass on the notice of a problem, without secrets."""
        self._notices.warning(event, **self._without_secrets(facts))

    def _without_secrets(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._excerpt(fact) if isinstance(fact, str) else fact
            for name, fact in facts.items()
        }

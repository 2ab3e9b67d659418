"""Rules for the regular expressions that a worker in this process matches itself.

Such a worker refuses a pattern that it cannot match as Java does. Kafka's workers accept it. All
patterns must match the whole name of a topic:

- `topics.regex` of a sink. Kafka: `WorkerSinkTask`, `SubscriptionState`.
- `pattern` of the predicate `TopicNameMatches`.
- `topic.creation.GROUP.include` and `.exclude` of a source. Kafka: `TopicCreationGroup`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from controlplane.core.configdef.check_result import KeyChecks, add_errors
from controlplane.core.configdef.regex_errors import matching_error, pattern_error
from controlplane.core.configdef.value_parser import InvalidValue, JavaClass
from controlplane.core.java.java_library import trim
from controlplane.core.java.pattern_parser import LENGTH_MAX
from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.core.validation.subject import ValidationSubject

TOPICS_REGEX = "topics.regex"
TOPIC_CREATION = "topic.creation."
_PATTERNS = ("include", "exclude")

_MATCHER = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
_SPACES = " \t\n\x0b\f\r"


def _listed(text: str) -> tuple[str, ...]:
    """Return the items of a list in a config, without the white space around each."""
    trimmed = trim(text)
    return tuple(item.strip(_SPACES) for item in trimmed.split(",")) if trimmed else ()


class TopicPatterns(NamedTuple):
    """List of regular expressions in a setting of `topic.creation.*`; any of them may match."""

    key: str
    """Name of the key in errors."""
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, key: str, text: str) -> "TopicPatterns":
        """Read the text of the setting: patterns with commas between them."""
        return cls(key, _listed(text))

    @property
    def joined(self) -> str:
        """The pattern of Java for the whole list. An empty list matches the empty text only."""
        return "|".join(self.patterns)

    def compiled(self) -> JavaPattern:
        """Return the pattern for the whole list.

        Raises:
            InvalidValue: the pattern is invalid, or this worker does not support it. For an invalid
                pattern, the text is Kafka's.
        """
        too_long = [self.joined] if len(self.joined) > LENGTH_MAX else []
        for pattern in (*too_long, *self.patterns, self.joined):
            reason = matching_error(pattern)
            if reason is not None:
                raise self._invalid(reason)
        return JavaPattern.of(self.joined)

    def check(self) -> None:
        """Refuse patterns that Java accepts, but that this worker does not support.

        Raises:
            InvalidValue: there is such a pattern.
        """
        if not any(pattern_error(pattern) for pattern in self.patterns):
            self.compiled()

    def _invalid(self, reason: str) -> InvalidValue:
        return InvalidValue.value(
            self.key, list(self.patterns), f"Syntax error in regular expression: {reason}"
        )


def compiled_regex(key: str, pattern: str) -> JavaPattern:
    """Return the pattern of a setting with one regular expression.

    Raises:
        InvalidValue: the pattern is invalid, or this worker does not support it. For an invalid
            pattern, the text is Kafka's.
    """
    reason = matching_error(pattern)
    if reason is not None:
        raise InvalidValue.value(key, pattern, f"Invalid regex: {reason}")
    return JavaPattern.of(pattern)


def topic_groups(config: Mapping[str, str | None]) -> Iterator[str]:
    """Names of the groups of `topic.creation.groups`, without the default group."""
    names = dict.fromkeys(_listed(config.get(f"{TOPIC_CREATION}groups") or ""))
    return (name for name in names if name and name != "default")


def topic_groups_error(config: Mapping[str, str | None]) -> str | None:
    """Return why the patterns of `topic.creation.*` are refused as a whole; None: they are not.

    Together they have the limit of one pattern: each new topic is compared with all of them.
    """
    length = sum(
        len(config.get(f"{TOPIC_CREATION}{group}.{part}") or "")
        for group in topic_groups(config)
        for part in _PATTERNS
    )
    if length <= LENGTH_MAX:
        return None
    return (
        f"The regular expressions of {TOPIC_CREATION}* have {length} characters. This worker "
        f"matches at most {LENGTH_MAX} together"
    )


def check_patterns(subject: ValidationSubject, kind: str, checked: KeyChecks) -> None:
    """Add an error for each pattern that this worker does not support."""
    for key, error in list(_errors(subject, kind, checked)):
        add_errors(checked, key, error)


def _errors(subject: ValidationSubject, kind: str, checked: KeyChecks) -> Iterator[tuple[str, str]]:
    """Yield pairs of key and error; values of config providers are unknown, and have none."""
    provided = subject.provided_keys()
    for key in _pattern_keys(checked):
        value = checked[key].value
        if isinstance(value, str) and value and not checked[key].errors and key not in provided:
            try:
                compiled_regex(key, value)
            except InvalidValue as invalid:
                yield key, str(invalid)
    if kind != "source" or f"{TOPIC_CREATION}groups" not in checked:
        return
    error = topic_groups_error(subject.config)
    if error is not None:
        yield f"{TOPIC_CREATION}groups", error
        return
    for group in topic_groups(subject.config):
        for part in _PATTERNS:
            key = f"{TOPIC_CREATION}{group}.{part}"
            if key not in provided:
                try:
                    TopicPatterns.of(key, subject.config.get(key) or "").check()
                except InvalidValue as invalid:
                    yield key, str(invalid)


def _pattern_keys(checked: KeyChecks) -> Iterator[str]:
    """Yield the checked keys with one regular expression."""
    if TOPICS_REGEX in checked:
        yield TOPICS_REGEX
    for key, check in checked.items():
        if key.startswith("predicates.") and key.endswith(".type"):
            pattern = f"{key.removesuffix('type')}pattern"
            is_matcher = isinstance(check.value, JavaClass) and check.value.name == _MATCHER
            if is_matcher and pattern in checked:
                yield pattern

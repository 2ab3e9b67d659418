"""Rules for the config of a sink or a source beyond those of single keys.

Kafka: `SinkConnectorConfig#validate`, `DistributedHerder#validateSinkConnectorGroupId`; for sources
(KIP-618) `DistributedHerder#validateSourceConnectorExactlyOnceSupport`, `…TransactionBoundary`.
"""

from collections.abc import Iterator

from controlplane.core.configdef.check_result import KeyCheck, KeyChecks, add_errors
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.regex_errors import matches, pattern_error
from controlplane.core.configdef.value_parser import parse, text_of
from controlplane.core.java.java_library import trim
from controlplane.core.plugins import Plugin
from controlplane.core.validation.capabilities import exactly_once
from controlplane.core.validation.result import CONFIG, PATTERN_SYNTAX, ValidationAborted
from controlplane.core.validation.subject import ValidationSubject

# --- sinks --------------------------------------------------------------------------------------

_TOPICS, _REGEX = "topics", "topics.regex"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_GROUP = "consumer.override.group.id"


def has_dead_letters(subject: ValidationSubject) -> bool:
    """True if a topic for dead letters is set."""
    return bool(_text(subject, _DEAD_LETTERS))


def fail_at_first_error(subject: ValidationSubject) -> None:
    """Fail at the first error in the sink's topics. Releases without `sink_errors_listed` do so.

    Raises:
        ValidationAborted: the topics have an error. An invalid regex counts only if there is a
            topic for dead letters.
    """
    for _, text in _topic_errors(subject):
        raise ValidationAborted(CONFIG, text)


def check_sink(subject: ValidationSubject, checked: KeyChecks) -> None:
    """Check the topics that the sink reads, and its consumer group.

    Raises:
        ValidationAborted: the regex is invalid, and there is a topic for dead letters.
    """
    if subject.profile.sink_errors_listed:
        for key, text in _topic_errors(subject):
            add_errors(checked, key, text)
    group, override = subject.worker.group_id, subject.config.get(_GROUP)
    if _GROUP in subject.config and subject.profile.sink_errors_listed:
        checked.setdefault(_GROUP, KeyCheck(_GROUP, override))
        if override == group:
            error = f"Consumer group {group} conflicts with Connect worker group {group}"
            add_errors(checked, _GROUP, error)
    elif f"connect-{checked['name'].value}" == group:
        error = (
            f"Consumer group for sink connector named {checked['name'].value} conflicts with "
            f"Connect worker group {group}"
        )
        add_errors(checked, "name", error)


def _text(subject: ValidationSubject, key: str) -> str:
    """Trimmed text under a key; empty if absent."""
    return trim(subject.config.get(key) or "")


def _topic_errors(subject: ValidationSubject) -> Iterator[tuple[str, str]]:
    """Pairs of key and error. An error about `topics` and `topics.regex` counts for both keys.

    Raises:
        ValidationAborted: the regex is invalid, and there is a topic for dead letters.
    """
    listed, pattern = _text(subject, _TOPICS), _text(subject, _REGEX)
    if listed and pattern:
        error = "topics and topics.regex are mutually exclusive options, but both are set."
        yield from ((_TOPICS, error), (_REGEX, error))
    if not listed and not pattern:
        error = "Must configure one of topics or topics.regex"
        yield from ((_TOPICS, error), (_REGEX, error))
    dead_letter_topic = _text(subject, _DEAD_LETTERS)
    if dead_letter_topic:
        yield from _dead_letter_errors(subject, dead_letter_topic)


def _dead_letter_errors(
    subject: ValidationSubject, dead_letter_topic: str
) -> Iterator[tuple[str, str]]:
    """Errors if the sink would read its own topic for dead letters."""
    listed = subject.profile.sink_errors_listed
    topics, pattern = _topics(subject), subject.config.get(_REGEX) or ""
    if dead_letter_topic in topics:
        # Older releases name the wrong key here.
        topics_text = f"('{_TOPICS if listed else _REGEX}={text_of(topics)}')"
        yield _TOPICS, _DEAD_LISTED.format(dead_letter_topic, topics_text)
    wrong = pattern_error(pattern) if trim(pattern) else None
    if wrong is not None:
        raise ValidationAborted(PATTERN_SYNTAX, wrong)
    if trim(pattern) and matches(pattern, dead_letter_topic):
        error = _DEAD_MATCHED if listed else _DEAD_MATCHED_OLD
        yield _REGEX, error.format(dead_letter_topic, f"('{_REGEX}={pattern}')")


_DEAD_LISTED = (
    "The DLQ topic '{}' may not be included in the list of topics {} consumed by the connector"
)
_DEAD_MATCHED = (
    "The DLQ topic '{}' may not be matched by the regex for the topics {} consumed by the connector"
)
_DEAD_MATCHED_OLD = (
    "The DLQ topic '{}' may not be included in the regex matching the topics {} consumed by the "
    "connector"
)


def _topics(subject: ValidationSubject) -> list[str]:
    key = ConfigKey(name=_TOPICS, type="LIST")
    names = parse(key, subject.config.get(_TOPICS), subject.find)
    return [name for name in dict.fromkeys(names) if name] if isinstance(names, list) else []


# --- sources ------------------------------------------------------------------------------------

_EXACTLY_ONCE, _BOUNDARY = "exactly.once.support", "transaction.boundary"

_DISABLED = "This worker does not have exactly-once source support enabled."

_NO_SUPPORT = {
    None: (
        "The connector does not implement the API required for preflight validation of "
        "exactly-once source support. Please consult the documentation for the connector to "
        "determine whether it supports exactly-once semantics, and then consider reconfiguring "
        'the connector to use the value "requested" for this property (which will disable this '
        "preflight check and allow the connector to be created)."
    ),
    False: "The connector does not support exactly-once semantics with the provided configuration.",
}

_NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given "
    "configuration. Please reconfigure it to use a different transaction boundary definition."
)


def check_source(subject: ValidationSubject, plugin: Plugin, checked: KeyChecks) -> None:
    """Check exactly-once support by worker and connector, and connector-defined boundaries."""
    support, boundary = checked.get(_EXACTLY_ONCE), checked.get(_BOUNDARY)
    if support is not None and _has_word(support, "required"):
        if not subject.worker.exactly_once_source:
            add_errors(checked, _EXACTLY_ONCE, _DISABLED)
        supported = exactly_once(plugin.exactly_once, subject.config)
        if not supported:
            add_errors(checked, _EXACTLY_ONCE, _NO_SUPPORT[supported])
    defines_boundaries = plugin.transaction_boundaries == "supported"
    if boundary is not None and _has_word(boundary, "connector") and not defines_boundaries:
        add_errors(checked, _BOUNDARY, _NO_BOUNDARIES)


def _has_word(check: KeyCheck, word: str) -> bool:
    return not check.errors and str(check.value).lower() == word

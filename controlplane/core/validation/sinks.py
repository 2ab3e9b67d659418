"""What a sink connector's config must be beyond its single keys.

Kafka: `SinkConnectorConfig#validate`, `DistributedHerder#validateSinkConnectorGroupId`.
"""

from collections.abc import Iterator

from controlplane.core.configdef.checked import Checked, Findings, blame
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.regexes import matches, pattern_error
from controlplane.core.configdef.values import parse, text_of
from controlplane.core.java import trim
from controlplane.core.validation.result import CONFIG, PATTERN_SYNTAX, Failed
from controlplane.core.validation.subject import Subject

_TOPICS, _REGEX = "topics", "topics.regex"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_GROUP = "consumer.override.group.id"


def has_dead_letters(subject: Subject) -> bool:
    """Whether a topic for dead letters is named."""
    return bool(_told(subject, _DEAD_LETTERS))


def fail_at_first_error(subject: Subject) -> None:
    """What a worker does that lists no errors of sinks.

    Raises:
        Failed: there is an error.
    """
    for _, text in _topic_errors(subject):
        raise Failed(CONFIG, text)


def check_sink(subject: Subject, checked: Findings) -> None:
    """Which topics it reads, and in which group.

    Raises:
        Failed: the pattern for topics is none, and has to be compared with a topic.
    """
    if subject.profile.sink_errors_listed:
        for key, text in _topic_errors(subject):
            blame(checked, key, text)
    group, override = subject.worker.group_id, subject.config.get(_GROUP)
    if _GROUP in subject.config and subject.profile.sink_errors_listed:
        checked.setdefault(_GROUP, Checked(_GROUP, override))
        if override == group:
            told = f"Consumer group {group} conflicts with Connect worker group {group}"
            blame(checked, _GROUP, told)
    elif f"connect-{checked['name'].value}" == group:
        told = (
            f"Consumer group for sink connector named {checked['name'].value} conflicts with "
            f"Connect worker group {group}"
        )
        blame(checked, "name", told)


def _told(subject: Subject, key: str) -> str:
    """The text under a key, trimmed; empty where there is none."""
    return trim(subject.config.get(key) or "")


def _topic_errors(subject: Subject) -> Iterator[tuple[str, str]]:
    """Keys and what is wrong with them: both are told where one of two is missing or too much."""
    listed, pattern = _told(subject, _TOPICS), _told(subject, _REGEX)
    if listed and pattern:
        told = "topics and topics.regex are mutually exclusive options, but both are set."
        yield from ((_TOPICS, told), (_REGEX, told))
    if not listed and not pattern:
        told = "Must configure one of topics or topics.regex"
        yield from ((_TOPICS, told), (_REGEX, told))
    dead = _told(subject, _DEAD_LETTERS)
    if dead:
        yield from _dead_letter_errors(subject, dead)


def _dead_letter_errors(subject: Subject, dead: str) -> Iterator[tuple[str, str]]:
    listed = subject.profile.sink_errors_listed
    topics, pattern = _topics(subject), subject.config.get(_REGEX) or ""
    if dead in topics:
        among = f"('{_TOPICS if listed else _REGEX}={text_of(topics)}')"
        yield _TOPICS, _DEAD_LISTED.format(dead, among)
    wrong = pattern_error(pattern) if trim(pattern) else None
    if wrong is not None:
        raise Failed(PATTERN_SYNTAX, wrong)
    if trim(pattern) and matches(pattern, dead):
        told = _DEAD_MATCHED if listed else _DEAD_MATCHED_OLD
        yield _REGEX, told.format(dead, f"('{_REGEX}={pattern}')")


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


def _topics(subject: Subject) -> list[str]:
    key = ConfigKey(name=_TOPICS, type="LIST")
    names = parse(key, subject.config.get(_TOPICS), subject.find)
    return [name for name in dict.fromkeys(names) if name] if isinstance(names, list) else []

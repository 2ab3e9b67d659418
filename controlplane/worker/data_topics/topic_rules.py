"""Topics that a source connector wants created, by its `topic.creation.*` (KIP-158).

Kafka: `TopicCreationGroup`, `SourceConnectorConfig`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.core.configdef.value_parser import InvalidValue
from controlplane.core.java.java_library import parse_int, trim
from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.core.validation.pattern_rules import (
    TOPIC_CREATION,
    TopicPatterns,
    topic_groups,
    topic_groups_error,
)

_DEFAULT = "default"
_OWN_KEYS = ("include", "exclude", "partitions", "replication.factor")
"""Keys of a group that are no configs of its topics."""

_BROKERS_DEFAULT = -1


class WantedTopic(NamedTuple):
    """A topic as a connector wants it created; numbers of -1 are the brokers' defaults."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def __str__(self) -> str:
        numbers = (
            "default" if number < 0 else str(number)
            for number in (self.partitions, self.replication_factor)
        )
        partitions, replicas = numbers
        configs = ", ".join(f"{key}={value}" for key, value in self.configs.items())
        return (
            f"(name={self.name}, numPartitions={partitions}, replicationFactor={replicas}, "
            f"replicasAssignments=null, configs={{{configs}}})"
        )


class _TopicGroup(NamedTuple):
    """Topics whose names match, and the settings with which they are created."""

    include: JavaPattern
    exclude: JavaPattern
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def selects(self, topic: str) -> bool:
        """True if a topic belongs to the group."""
        return not self.exclude.matches(topic) and self.include.matches(topic)


class TopicRules:
    """Groups of one connector in their order; the last one takes every topic."""

    def __init__(self, groups: Sequence[_TopicGroup]) -> None:
        self._groups = groups

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "TopicRules | None":
        """Read the groups from a connector's config; None: it has no `topic.creation.*`.

        Regular expressions may take seconds to read.

        Raises:
            ConnectError: a regular expression is invalid, or this worker does not support it. Or a
                number is invalid. Or the group `default` lacks its number of partitions or its
                replication factor.
        """
        if not has_topic_rules(config):
            return None
        error = topic_groups_error(config)
        if error is not None:
            raise ConnectError(error)
        reader = _GroupReader(config)
        default = reader.group(_DEFAULT, None)
        return cls([*(reader.group(name, default) for name in topic_groups(config)), default])

    def topic(self, name: str) -> WantedTopic:
        """Return a topic with the settings of the first group that selects it.

        Each match of a regular expression may take 0.05 s.

        Raises:
            MatchLimitExceeded: a regular expression takes too many steps.
        """
        group = next(group for group in self._groups if group.selects(name))
        return WantedTopic(name, group.partitions, group.replication_factor, group.configs)


def has_topic_rules(config: Mapping[str, str]) -> bool:
    """Return True if a connector's config has `topic.creation.*`."""
    return any(key.startswith(TOPIC_CREATION) for key in config)


class _GroupReader:
    """Reads the groups of one connector's config. A group's keys are adjacent in sorted order."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config
        self._keys = sorted(config)

    def group(self, name: str, default: _TopicGroup | None) -> _TopicGroup:
        """Read a group. It takes missing numbers from the group `default`.

        `default` is None for the default group itself.

        Raises:
            ConnectError: a regular expression is invalid, or this worker does not support it. Or a
                number is invalid, or the default group lacks it.
        """
        prefix = f"{TOPIC_CREATION}{name}."
        own = dict(self._own_settings(prefix))
        replication_factor = self._number(
            f"{prefix}replication.factor", default and default.replication_factor
        )
        partitions = self._number(f"{prefix}partitions", default and default.partitions)
        return _TopicGroup(
            _pattern("include", own.get("include", "") if default else ".*"),
            _pattern("exclude", own.get("exclude", "") if default else ""),
            partitions,
            replication_factor,
            {key: value for key, value in own.items() if key not in _OWN_KEYS},
        )

    def _number(self, setting: str, default: int | None) -> int:
        """Return the number of a setting, as Kafka's `TopicCreationConfig` validates it."""
        text = self._config.get(setting)
        if text is None:
            if default is None:
                raise ConnectError(
                    f'Missing required configuration "{setting}" which has no default value.'
                )
            return default
        number = parse_int(trim(text))
        if number is None:
            raise _invalid(setting, text, "Not a number of type INT")
        if number != _BROKERS_DEFAULT and number < 1:
            raise _invalid(setting, number, "Value must be -1 or at least 1")
        return number

    def _own_settings(self, prefix: str) -> Iterator[tuple[str, str]]:
        for index in range(bisect_left(self._keys, prefix), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                return
            yield key.removeprefix(prefix), self._config[key].strip()


def _invalid(setting: str, value: str | int, reason: str) -> ConnectError:
    return ConnectError(str(InvalidValue.value(setting, value, reason)))


def _pattern(key: str, listed: str) -> JavaPattern:
    """Return the pattern of a list of regular expressions. An empty list matches no topic.

    `key`: name of the list's setting within the group, as in Kafka's error.
    """
    try:
        return TopicPatterns.of(key, listed).compiled()
    except InvalidValue as invalid:
        raise ConnectError(str(invalid)) from None

"""Groups of `topic.creation.*` with many or long regular expressions hold up nothing."""

import threading
from typing import Any

import pytest

from controlplane.connect import ConnectError
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.plane import Refusal, Settings
from controlplane.settings.providers import Providers
from controlplane.worker.data_topics.topic_rules import TopicRules
from tests.operation_counts import operations
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import (
    config_of,
    connector_status,
    running,
    until,
    until_state,
)

DEFAULTS = {
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}
TOO_LONG = (
    "The regular expressions of topic.creation.* have 20001 characters. This worker matches at "
    "most 20000 together"
)


def groups_of(*patterns: str) -> dict[str, str]:
    """Settings with a group for each pattern."""
    names = [f"g{number}" for number in range(len(patterns))]
    included = {
        f"topic.creation.{name}.include": pattern
        for name, pattern in zip(names, patterns, strict=True)
    }
    return DEFAULTS | {"topic.creation.groups": ",".join(names)} | included


async def test_patterns_that_are_too_long_together_are_refused() -> None:
    """The limit is that of one pattern; the refusal names the total length and the limit."""
    async with running(CountingSource) as worker:
        config = config_of(CountingSource, topic="t") | groups_of("a" * 10_000, "b" * 10_001)
        with pytest.raises(Refusal) as refused:
            await worker.plane.execute(CreateConnector("c", config))
        assert TOO_LONG in str(refused.value)
        config |= {"topic.creation.g0.include": "a" * 9_999}
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "RUNNING")


async def test_patterns_of_a_provider_that_are_too_long_fail_the_connector() -> None:
    """Validation does not know the value."""
    environment = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    providers = Providers({"env": environment}, {"P": "a" * 20_001})
    named = Settings(worker=DecisionSettings(config_providers=("env",)))
    async with running(CountingSource, providers=providers, settings=named) as worker:
        config = config_of(CountingSource, topic="t") | groups_of("${env:P}")
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "FAILED")
        status = connector_status(worker, "c")
    assert status is not None
    assert TOO_LONG in (status.trace or "")


async def test_threads_of_the_connector_read_and_match_the_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop, and so REST, does neither."""
    read_in: set[str] = set()
    matched: list[tuple[str, str]] = []
    of, topic = TopicRules.of, TopicRules.topic

    def noted_of(config: Any) -> Any:
        read_in.add(threading.current_thread().name)
        return of(config)

    def noted_topic(rules: TopicRules, name: str) -> Any:
        matched.append((threading.current_thread().name, name))
        return topic(rules, name)

    monkeypatch.setattr(TopicRules, "of", noted_of)
    monkeypatch.setattr(TopicRules, "topic", noted_topic)
    async with running(CountingSource) as worker:
        config = config_of(CountingSource, topic="t") | groups_of("t")
        await worker.plane.execute(
            CreateConnector("c", config | {"topic.creation.g0.partitions": "3"})
        )
        await until(lambda: matched)
        await until_state(worker, "c", "RUNNING", "RUNNING")
    assert read_in == {"connector c", "conversion c-0"}
    assert matched == [("conversion c-0", "t")]


def test_groups_are_read_in_linear_time() -> None:
    """Twice as many groups take about twice the operations."""
    few, many = (groups_of(*(f"t{number}" for number in range(count))) for count in (300, 600))
    assert operations(lambda: TopicRules.of(many)) < 2.5 * operations(lambda: TopicRules.of(few))


def test_a_group_has_the_settings_behind_its_whole_name() -> None:
    """Names of groups may contain dots, and be prefixes of each other."""
    config = DEFAULTS | {
        "topic.creation.groups": "a, a.b, ab",
        "topic.creation.a.include": "x",
        "topic.creation.a.b.include": "y",
        "topic.creation.ab.include": "z",
        "topic.creation.a.partitions": "2",
        "topic.creation.a.b.partitions": "3",
        "topic.creation.ab.partitions": "4",
        "topic.creation.a.b.cleanup.policy": "compact",
    }
    rules = TopicRules.of(config)
    assert rules is not None
    assert [rules.topic(name).partitions for name in "xyzw"] == [2, 3, 4, 1]
    assert rules.topic("y").configs == {"cleanup.policy": "compact"}
    assert rules.topic("x").configs == {
        "b.include": "y",
        "b.partitions": "3",
        "b.cleanup.policy": "compact",
    }


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [
        ("default.partitions", "0", "Value must be -1 or at least 1"),
        ("default.replication.factor", "-2", "Value must be -1 or at least 1"),
        ("g.partitions", "0", "Value must be -1 or at least 1"),
        ("g.replication.factor", "1.5", "Not a number of type INT"),
        ("default.partitions", "abc", "Not a number of type INT"),
        ("g.partitions", "", "Not a number of type INT"),
        ("g.partitions", "2147483648", "Not a number of type INT"),
    ],
)
def test_invalid_numbers_are_refused_as_in_kafka(setting: str, value: str, error: str) -> None:
    """The message names the whole setting (`TopicCreationConfig`)."""
    name = f"topic.creation.{setting}"
    config = DEFAULTS | {"topic.creation.groups": "g", name: value}
    with pytest.raises(ConnectError) as refused:
        TopicRules.of(config)
    assert str(refused.value) == f"Invalid value {value} for configuration {name}: {error}"


@pytest.mark.parametrize("missing", DEFAULTS)
def test_the_default_group_requires_both_numbers(missing: str) -> None:
    """Another group takes a missing number from the default group."""
    config = {key: value for key, value in DEFAULTS.items() if key != missing}
    with pytest.raises(ConnectError) as refused:
        TopicRules.of(config)
    assert str(refused.value) == (
        f'Missing required configuration "{missing}" which has no default value.'
    )


def test_numbers_may_be_the_brokers_defaults_and_are_inherited() -> None:
    """A number of -1 is valid in each group; white space around a number does not count."""
    rules = TopicRules.of(
        {
            "topic.creation.default.partitions": " 7 ",
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.groups": "a, b",
            "topic.creation.a.include": "a",
            "topic.creation.a.partitions": "-1",
            "topic.creation.b.include": "b",
            "topic.creation.b.replication.factor": "3",
        }
    )
    assert rules is not None
    topics = map(rules.topic, "abc")
    numbers = [(topic.partitions, topic.replication_factor) for topic in topics]
    assert numbers == [(-1, -1), (7, 3), (7, -1)]


async def test_an_invalid_number_of_a_provider_fails_the_connector() -> None:
    """Kafka checks the numbers when it starts the connector, not when it validates the config."""
    setting = "topic.creation.default.partitions"
    environment = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    providers = Providers({"env": environment}, {"P": "many"})
    named = Settings(worker=DecisionSettings(config_providers=("env",)))
    async with running(CountingSource, providers=providers, settings=named) as worker:
        for name, value in (("plain", "0"), ("provided", "${env:P}")):
            config = config_of(CountingSource, topic="t") | DEFAULTS | {setting: value}
            await worker.plane.execute(CreateConnector(name, config))
            await until_state(worker, name, "FAILED")
        statuses = [connector_status(worker, name) for name in ("plain", "provided")]
    plain, provided = ((status and status.trace) or "" for status in statuses)
    assert f"Invalid value 0 for configuration {setting}: Value must be -1 or" in plain
    assert f"for configuration {setting}: Not a number of type INT" in provided
    assert "many" not in provided

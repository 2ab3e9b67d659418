"""Regular expressions of Java in the configs of connectors that run here."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from time import monotonic

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext
from controlplane.connect.errors import ConnectError
from controlplane.core.commands import CreateConnector
from controlplane.core.context import Context, DecisionSettings
from controlplane.core.java import regular_expressions
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation import refusal
from controlplane.plane import Refusal, Settings
from controlplane.plugins import catalogued
from controlplane.settings.providers import Providers
from controlplane.worker import factory
from controlplane.worker.data_topics.topic_rules import TopicRules
from tests.rest.served_history import client_of
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import (
    config_of,
    connector_status,
    produce,
    running,
    task_trace,
    until,
    until_state,
)

CANNOT = "this worker cannot match it: an escape that is not supported"
PREDICATE = {
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
}
GROUP = {
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.groups": "g",
}
PROVIDED = Providers(
    {"env": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}, {"P": r"(a)\1"}
)

NAMED = Settings(worker=DecisionSettings(config_providers=("env",)))

taken: list[str] = []
"""Topics of the records that the sink of these tests has got."""


@pytest.fixture(autouse=True)
def _empty() -> None:
    taken.clear()


class TopicCollectingSink(Sink):
    """Sink that keeps the topic of each record."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the topics."""
        del task
        taken.extend(record.topic for record in records)


def config_with(setting: dict[str, str]) -> dict[str, str]:
    """Config of a sink for `topics.regex` and predicates; else of a source."""
    if any(key.startswith("topic.creation") for key in setting):
        return config_of(CountingSource, topic="t") | GROUP | setting
    topics = {} if "topics.regex" in setting else {"topics": "t"}
    return config_of(TopicCollectingSink) | topics | setting


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"topics.regex": r"(a)\1"}, f"topics.regex: Invalid regex: {CANNOT} at index 3"),
        (
            PREDICATE | {"predicates.p.pattern": r"a\R"},
            f"predicates.p.pattern: Invalid regex: {CANNOT} at index 1",
        ),
        (
            {"topic.creation.g.include": r"x, a\R"},
            f"topic.creation.g.include: Syntax error in regular expression: {CANNOT} at index 1",
        ),
        (
            {"topic.creation.g.exclude": r"\G"},
            f"topic.creation.g.exclude: Syntax error in regular expression: {CANNOT} at index 0",
        ),
        ({"topics.regex": "("}, "topics.regex: Invalid regex: Unclosed group near index 1\n("),
    ],
)
async def test_patterns_that_cannot_be_matched_are_refused(
    setting: dict[str, str], error: str
) -> None:
    """The validation by a worker that runs connectors names key and reason."""
    async with running(TopicCollectingSink, CountingSource) as worker:
        with pytest.raises(Refusal) as refused:
            await worker.plane.execute(CreateConnector("c", config_with(setting)))
    assert "the following 1 error(s):\nInvalid value " in str(refused.value)
    assert f" for configuration {error}" in str(refused.value)


def test_a_plane_for_javas_workers_accepts_every_pattern_of_java() -> None:
    """A pattern that only Java can match is no error where Java runs the connectors."""
    config = PREDICATE | {
        "name": "c",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics.regex": r"(a)\1",
        "predicates.p.pattern": r"\R",
    }
    assert refusal(config, Context(profile=Profile.of("3.9.1"), plugins=catalogued())) is None


async def test_a_sink_gets_the_topics_that_java_would_select() -> None:
    """`topics.regex` has Java's syntax, and matches whole names."""
    async with running(TopicCollectingSink) as worker:
        for topic in ("ab", "aB", "xab", "a.b", "axb", "b", "c"):
            await produce(worker.plane.log, topic, topic)
        pattern = r"\p{Lower}{2}|\Qa.b\E|[a-c&&[^b]]"
        config = config_of(TopicCollectingSink, topics_regex=pattern)
        await worker.plane.execute(CreateConnector("c", config))
        await until(lambda: sorted(taken) == ["a.b", "ab", "c"])


async def test_a_pattern_of_a_provider_is_checked_at_the_start() -> None:
    """Validation does not know the value; the task is FAILED, and its trace has the reason."""
    async with running(
        TopicCollectingSink, CountingSource, providers=PROVIDED, settings=NAMED
    ) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("s", config_with({"topics.regex": "${env:P}"})))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert f"Invalid regex: {CANNOT} at index 3" in task_trace(worker, "s")
        config = config_with(PREDICATE | CHAIN | {"predicates.p.pattern": "${env:P}"})
        await plane.execute(CreateConnector("p", config))
        await until_state(worker, "p", "RUNNING", "FAILED")
        assert f"configuration pattern: Invalid regex: {CANNOT}" in task_trace(worker, "p")


CHAIN = {
    "transforms": "drop",
    "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.drop.predicate": "p",
}


NESTED = "(a+)+b"
"""Backtracking would divide the letters of `LONG` in more than 10^18 ways."""
LONG = "a" * 64
NEAR_LIMIT = "(?>(?>(a|aa)*?b|(a{1,100}?){100})*)*"
LONGEST = "a" * 249
TOO_LONG = f"takes more than 20000 steps to match {LONGEST}; simplify it"


async def test_nested_repetitions_hold_up_nothing() -> None:
    """Patterns of predicates, of topic creation and of `topics.regex` match a long name quickly."""
    config = config_with(PREDICATE | CHAIN | {"predicates.p.pattern": NESTED})
    rules = TopicRules.of(
        GROUP | {"topic.creation.g.include": NESTED, "topic.creation.g.exclude": "(b*)*a"}
    )
    assert rules is not None
    assert rules.topic(LONG).partitions == 1
    async with running(TopicCollectingSink) as worker:
        for topic in (LONG, f"{LONG}b"):
            await produce(worker.plane.log, topic, topic)
        await worker.plane.execute(CreateConnector("c", config | {"topics": f"{LONG},{LONG}b"}))
        await until(lambda: taken == [LONG])
        config = config_of(TopicCollectingSink, topics_regex=NESTED)
        await worker.plane.execute(CreateConnector("d", config))
        await until(lambda: sorted(taken) == [LONG, f"{LONG}b"])


async def test_a_task_fails_if_its_pattern_takes_too_many_steps() -> None:
    """The trace names the topic; a predicate fails at its record, which can be tolerated."""
    async with running(TopicCollectingSink) as worker:
        await produce(worker.plane.log, LONGEST, LONGEST)
        config = config_of(TopicCollectingSink, topics_regex=NEAR_LIMIT)
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert TOO_LONG in task_trace(worker, "c")
        setting = PREDICATE | CHAIN | {"predicates.p.pattern": NEAR_LIMIT, "topics": LONGEST}
        await worker.plane.execute(CreateConnector("p", config_of(TopicCollectingSink) | setting))
        await until_state(worker, "p", "RUNNING", "FAILED")
        assert TOO_LONG in task_trace(worker, "p")
        assert taken == []
        await produce(worker.plane.log, "short", "short")
        tolerant = setting | {"topics": f"short,{LONGEST}", "errors.tolerance": "all"}
        await worker.plane.execute(CreateConnector("t", config_of(TopicCollectingSink) | tolerant))
        await until(lambda: taken == ["short"])


@pytest.mark.parametrize(
    ("listed", "error"),
    [
        ("(", "Invalid value [(] for configuration include: Syntax error in regular expression: "),
        ("${env:P}", "Invalid value [[hidden]] for configuration include: Syntax error in"),
    ],
)
async def test_a_source_with_a_wrong_group_fails(listed: str, error: str) -> None:
    """Kafka does not validate `topic.creation.*`: the connector is FAILED in Kafka's words.

    A value of a provider is hidden.
    """
    async with running(CountingSource, providers=PROVIDED, settings=NAMED) as worker:
        config = config_with({"topic.creation.g.include": listed})
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "FAILED")
        status = connector_status(worker, "c")
    assert status is not None
    assert error in (status.trace or "")


@pytest.mark.parametrize(
    ("include", "exclude", "selected"),
    [
        ("", "", ""),
        ("a, b", "", "a b"),
        ("(?i)a,b", "", "a b A B"),
        (r"[a-c&&[^b]],\QB\E", "", "a c B"),
        ("a|b|c", r"\p{Lower}", ""),
        (".*", "(?i)B", "a c A"),
    ],
)
def test_groups_select_topics_as_in_kafka(include: str, exclude: str, selected: str) -> None:
    """The patterns of a list are joined before they are compiled, so flags hold for the rest."""
    rules = TopicRules.of(
        GROUP
        | {
            "topic.creation.g.include": include,
            "topic.creation.g.exclude": exclude,
            "topic.creation.g.partitions": "3",
        }
    )
    assert rules is not None
    topics = [topic for topic in "abcAB" if rules.topic(topic).partitions == 3]
    assert topics == selected.split()


def test_a_list_with_an_invalid_pattern_is_refused() -> None:
    """Each pattern of the list must be valid by itself, even if the joined pattern is valid."""
    with pytest.raises(ConnectError, match=r"^Invalid value \[\(a, b\)\] for"):
        TopicRules.of(GROUP | {"topic.creation.g.include": "(a,b)"})


@pytest.mark.parametrize("method", ["validate", "put", "patch"])
async def test_long_patterns_are_validated_in_a_thread(method: str) -> None:
    """The event loop goes on while a config with several long patterns is validated."""
    aliases = [f"p{number}" for number in range(6)]
    config: dict[str, str] = config_of(TopicCollectingSink, topics="in", name="s")
    config["predicates"] = ",".join(aliases)
    for alias in aliases:
        config[f"predicates.{alias}.type"] = PREDICATE["predicates.p.type"]
        config[f"predicates.{alias}.pattern"] = f"(?i)[{'a' * 19_900}]{alias}"
    turns: list[float] = []

    async def count_turns() -> None:
        while True:
            turns.append(monotonic())
            await asyncio.sleep(0.001)

    async with running(TopicCollectingSink) as worker, client_of(worker.plane.app) as client:
        path, body = "/connectors/s/config", config
        if method == "validate":
            path = "/connector-plugins/TopicCollectingSink/config/validate"
        if method == "patch":
            await worker.plane.execute(CreateConnector("s", config))
            body = {"tasks.max": "2"}
        regular_expressions._compiled.cache_clear()
        counting = asyncio.create_task(count_turns())
        began = monotonic()
        answer = await client.request("PATCH" if method == "patch" else "PUT", path, json=body)
        seconds = monotonic() - began
        counting.cancel()
    assert answer.status_code < 300, answer.text
    assert max(after - before for before, after in pairwise(turns)) < seconds / 2


async def test_a_sink_compiles_its_pattern_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop goes on while a starting sink compiles a long pattern."""
    compiled, in_loop = factory._topics_regex, list[bool]()

    def noted(config: Mapping[str, str]) -> regular_expressions.JavaPattern | None:
        in_loop.append(threading.current_thread() is threading.main_thread())
        return compiled(config)

    monkeypatch.setattr(factory, "_topics_regex", noted)
    async with running(TopicCollectingSink) as worker:
        config = config_of(TopicCollectingSink, topics_regex="t.*")
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
    assert in_loop == [False]

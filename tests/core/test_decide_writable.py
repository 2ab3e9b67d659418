"""Refusals of commands that cannot be written, and refusals of `kip` that releases lack."""

from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    PatchConfig,
    PublishTasks,
    PutConfig,
    SetLoggerLevel,
    StopConnector,
)
from controlplane.core.context import DecisionSettings
from controlplane.core.decide import REQUEST_MAX_BYTES
from controlplane.core.plan import Reason
from tests.core.decisions import PROPERTIES, SOURCE, planned, refused
from tests.core.logs import Pair, config, read

A: Pair = ("connector-a", f'{{"properties":{{"connector.class":"{SOURCE}","topic":"t"}}}}')
PROVIDED = DecisionSettings(config_providers=("env",))


class Size(StrEnum):
    """A text of a subclass of `str`."""

    TWO = "2"


def commands_with(config: Any) -> list[AnyCommand]:
    """Every command that writes a config."""
    return [
        CreateConnector("b", config),
        PutConfig("b", config),
        PutConfig("a", config),
        PatchConfig("a", config),
        PublishTasks("a", ({}, config)),
    ]


@pytest.mark.parametrize("release", ["3.9", "kip"])
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"tasks.max": 2}, "text or null, and that of 'tasks.max' is of type int"),
        ({"topic": ["s3cret"]}, "text or null, and that of 'topic' is of type list"),
        ({"topic": {}}, "text or null, and that of 'topic' is of type dict"),
        ({"eager": True}, "text or null, and that of 'eager' is of type bool"),
        ({"tasks.max": Size.TWO}, "text or null, and that of 'tasks.max' is of type Size"),
        ({5: "five"}, "Every key of a config must be text, and 5 is of type int"),
    ],
)
def test_a_config_is_text(overrides: dict[Any, Any], message: str, release: str) -> None:
    """A worker's config is a map of text to text or null, and no other can be written."""
    for command in commands_with({**PROPERTIES, **overrides}):
        rejected = refused([A], command, release)
        assert rejected.reason is Reason.INVALID
        assert message in rejected.sentence
        assert "s3cret" not in rejected.sentence


@pytest.mark.parametrize("config", [None, [], "text", MappingProxyType(PROPERTIES)])
def test_a_config_is_a_dict(config: Any) -> None:
    """A config of any other type cannot be written."""
    for command in commands_with(config):
        message = f"A config must be a dict of texts, and not of type {type(config).__name__}"
        assert refused([A], command).text == message


@pytest.mark.parametrize(
    "command",
    [
        CreateConnector(5, PROPERTIES),  # type: ignore[arg-type]
        StopConnector(b"a"),  # type: ignore[arg-type]
        SetLoggerLevel("root", 5),  # type: ignore[arg-type]
        SetLoggerLevel(None, "INFO"),  # type: ignore[arg-type]
    ],
)
def test_names_are_text(command: AnyCommand) -> None:
    """A name that is no text is refused, not converted."""
    rejected = refused([A], command)
    assert rejected.reason is Reason.INVALID
    assert "of a command must be text, and not of type" in rejected.sentence


@pytest.mark.parametrize("release", ["3.9", "kip"])
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"v": "x" * 20_000_001}, "The value of 'v' in the config has more than 20000000"),
        ({"v": "\U0001f600" * 10_000_001}, "The value of 'v' in the config has more than 20000000"),
        ({"ä" * 25_001: "x"}, "..., has more than 50000 bytes, which no reader accepts"),
    ],
    ids=["value", "pairs", "key"],
)
def test_a_config_can_be_read_back(overrides: dict[str, str], message: str, release: str) -> None:
    """A config that no reader could read back is refused."""
    for command in commands_with({**PROPERTIES, **overrides}):
        rejected = refused([A], command, release)
        assert rejected.reason is Reason.INVALID
        assert message in rejected.sentence
        assert len(rejected.sentence) < 500


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\U0001f600" + "x" * 19_999_998, id="one surrogate pair"),
        pytest.param("\U0001f600" * 10_000_000, id="many", marks=pytest.mark.prove),
    ],
)
def test_the_longest_config_is_accepted(value: str) -> None:
    """The plan accepts the longest value and name that a reader accepts; the fold reads them."""
    longest = {"v": value, "ä" * 25_000: "x"}
    (step,) = planned([], CreateConnector("b", {**PROPERTIES, **longest})).steps
    state = read(config(*((record.key, record.value) for record in step.records)), "kip")
    assert state.config.connectors["b"].items() >= longest.items()


@pytest.mark.parametrize(
    ("release", "over", "fits"), [("3.9", 0, True), ("3.9", 1, False), ("kip", 1, True)]
)
@pytest.mark.parametrize(("name", "overhead"), [("b" * 53, 87), ("b" * 54, 88)])
def test_records_above_a_mebibyte_are_refused(
    release: str, over: int, fits: bool, name: str, overhead: int
) -> None:
    """A worker's producer sends at most 1 MiB at once; our log accepts more.

    The length of a key takes two bytes from 64 bytes on (`DefaultRecord#recordSizeUpperBound`).
    """
    (step,) = planned([], PutConfig(name, {**PROPERTIES, "v": ""}), release).steps
    (draft,) = step.records
    size = len(draft.key) + len(draft.value or b"")
    longer = {"v": "x" * (REQUEST_MAX_BYTES - overhead - size + over)}
    command = PutConfig(name, {**PROPERTIES, **longer})
    if fits:
        assert planned([], command, release).steps
    else:
        rejected = refused([], command, release)
        assert rejected.reason is Reason.FAILED
        assert rejected.text == "Error writing connector configuration to Kafka"


def test_task_configs_can_be_too_large() -> None:
    """Too large task configs of a connector get their own error."""
    rejected = refused([A], PublishTasks("a", ({"v": "x" * REQUEST_MAX_BYTES},)), "3.9")
    assert rejected.reason is Reason.FAILED
    assert rejected.text == "Error writing task configurations to Kafka"


def test_a_name_can_be_read_back() -> None:
    """A name longer than a string that a reader accepts is refused."""
    assert refused([], CreateConnector("x" * 20_000_001, PROPERTIES)).sentence.startswith(
        "The connector of a command has more than 20000000 characters"
    )


@pytest.mark.parametrize("command", [CreateConnector, PutConfig])
def test_half_a_surrogate_is_no_name(command: type[CreateConnector | PutConfig]) -> None:
    """Half a surrogate is refused: releases would use the key of another connector."""
    other: Pair = ("connector-a?", A[1])
    request = command("a\ud801", PROPERTIES)
    rejected = refused([other], request)
    assert rejected.reason is Reason.INVALID
    assert r"The name 'a\ud801' holds half a surrogate pair" in rejected.sentence
    (step,) = planned([other], request, "3.9").steps
    assert [draft.key for draft in step.records] == [b"connector-a?"]
    assert planned([], command("a\U0001f600", PROPERTIES)).steps


MISPLACED = {
    "connect-configs": "which is the cluster's config topic: choose",
    "connect-status": "which is the cluster's status topic: choose",
    "connect-commands": "which is the cluster's commands topic: choose",
    "my topic": "which cannot be the name of a topic: use 1 to 249 letters",
    "own\n": "which cannot be the name of a topic",
    "äpfel": "which cannot be the name of a topic",
    "x" * 250: "which cannot be the name of a topic",
    ".": "which cannot be the name of a topic",
    "..": "which cannot be the name of a topic",
    "${env:TOPIC}": "which cannot be the name of a topic",
}


@pytest.mark.parametrize("topic", MISPLACED)
def test_offsets_have_a_topic_of_their_own(topic: str) -> None:
    """An offsets topic with an invalid name or with other records is refused by `kip` only."""
    own = {"offsets.storage.topic": topic}
    config = PROPERTIES | own
    for command in (CreateConnector("b", config), PutConfig("a", config), PatchConfig("a", own)):
        rejected = refused([A], command)
        assert rejected.reason is Reason.INVALID
        assert rejected.sentence.startswith("offsets.storage.topic is ")
        assert MISPLACED[topic] in rejected.sentence
        assert planned([A], command, "3.9").steps


@pytest.mark.parametrize("topic", ["own", "connect-offsets", "a.B_c-9", "x" * 249, "...", None])
def test_other_offsets_topics_are_accepted(topic: str | None) -> None:
    """The worker's own offsets topic is allowed, too; null removes the setting."""
    assert planned([A], PatchConfig("a", {"offsets.storage.topic": topic})).steps


def test_a_topic_from_a_config_provider_is_accepted() -> None:
    """A topic from a config provider is not checked: its value is unknown."""
    config = PROPERTIES | {"offsets.storage.topic": "${env:TOPIC}"}
    assert planned([], CreateConnector("b", config), worker=PROVIDED).steps


def test_an_unclosed_reference_is_the_name_of_a_topic() -> None:
    """A provider replaces no reference without its closing brace."""
    config = PROPERTIES | {"offsets.storage.topic": "${env:TOPIC"}
    refusal = refused([], CreateConnector("b", config), worker=PROVIDED)
    assert "cannot be the name of a topic" in str(refusal.text)

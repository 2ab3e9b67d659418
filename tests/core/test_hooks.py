"""Offset hooks of connectors: those described in words, and Kafka's own."""

from typing import Any

import pytest

from controlplane.core.plan import HookFailure, HookOutcome, HookSuccess, Offsets
from controlplane.core.plugins.offset_hooks import UnknownHook, parse_hook

ACCEPTED, DECLINED = HookSuccess(definite=True), HookSuccess(definite=False)
UNSUPPORTED = HookFailure(
    "Failed to modify offsets for connector x because it doesn't support external modification of "
    "offsets"
)
PAGES = (
    "by the config key 'alter': true accepts, false declines, throw raises ConnectException('told "
    "to refuse these offsets'), unsupported raises UnsupportedOperationException"
)
NOTHING: Offsets = ()


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("accepts", ACCEPTED),
        (" declines ", DECLINED),
        ("raises ConnectException('It's no use: a, b')", HookFailure("It's no use: a, b")),
        ("raises UnsupportedOperationException", UNSUPPORTED),
    ],
)
def test_words_describe_a_hook(words: str, outcome: HookOutcome) -> None:
    """Each of these descriptions gives a hook that ignores its offsets."""
    assert parse_hook(words)({"name": "x"}, NOTHING) == outcome


@pytest.mark.parametrize(
    ("config", "outcome"),
    [
        ({}, ACCEPTED),
        ({"alter": "true"}, ACCEPTED),
        ({"alter": "false"}, DECLINED),
        ({"alter": "throw"}, HookFailure("told to refuse these offsets")),
        ({"alter": "unsupported"}, UNSUPPORTED),
        ({"alter": "else"}, DECLINED),
        ({"alter": None}, DECLINED),
        ({"alter": ["true"]}, DECLINED),
        ({"alter": {"true": True}}, DECLINED),
    ],
)
def test_a_config_key_decides_the_words(config: dict[str, Any], outcome: HookOutcome) -> None:
    """The value in the config decides; without one, the default of the key decides."""
    hook = parse_hook(PAGES, {"alter": "true"})
    assert hook({"name": "x", **config}, NOTHING) == outcome


@pytest.mark.parametrize(
    "words",
    ["", "perhaps", "raises", "as Jdbc", "by the config key 'k': ", "by the config key 'k': a b"],
)
def test_other_words_are_refused(words: str) -> None:
    """A sentence that is no description of a hook raises `UnknownHook`."""
    with pytest.raises(UnknownHook, match="does not say what the hook does"):
        parse_hook(words)


def outcome_of(words: str, *offsets: tuple[Any, Any], **config: str) -> HookOutcome:
    """Return the outcome of the described hook for these offsets."""
    return parse_hook(words)({"name": "x", **config}, offsets)


def outcome_with(text: str | None) -> HookOutcome:
    """Return a failure with this text; without a text, acceptance."""
    return ACCEPTED if text is None else HookFailure(text)


FILE = {"filename": "/a"}
STDIN = (
    "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin "
    "is used for input and offsets are not tracked."
)
NO_LONG = "The value for the 'position' key in the offset is expected to be a Long value"


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (FILE, {"position": 3}, None),
        (FILE, {"position": 0, "more": "x"}, None),
        ({"anything": 1}, None, None),
        (None, None, None),
        (FILE, {}, "Offset objects should either be null or contain the key 'position'"),
        (FILE, {"position": "four"}, NO_LONG),
        (FILE, {"position": 4.0}, NO_LONG),
        (FILE, {"position": True}, NO_LONG),
        (FILE, {"position": None}, NO_LONG),
        (
            FILE,
            {"position": -1},
            "The value for the 'position' key in the offset should be a non-negative value",
        ),
        (None, {"position": 4}, "Partition objects cannot be null"),
        ({"file": "x"}, {"position": 4}, "Partition objects should contain the key 'filename'"),
    ],
)
def test_file_offsets_are_checked(partition: Any, offset: Any, text: str | None) -> None:
    """`FileStreamSourceConnector` accepts a position in a file, or null."""
    outcome = outcome_of("as FileStreamSourceConnector", (partition, offset), file="/a")
    assert outcome == outcome_with(text)


def test_standard_input_has_no_offsets() -> None:
    """A file connector on standard input refuses offsets, also their removal."""
    refused = HookFailure(STDIN)
    assert outcome_of("as FileStreamSourceConnector") == refused
    assert outcome_of("as FileStreamSourceConnector", (FILE, None), file="") == refused


@pytest.mark.parametrize(
    ("file", "text"), [("  ", STDIN), ("\t\x01", STDIN), (" /a ", None), ("\u00a0", None)]
)
def test_a_blank_file_is_standard_input(file: str, text: str | None) -> None:
    """Kafka trims the name of the file as `String.trim` does."""
    outcome = outcome_of("as FileStreamSourceConnector", (FILE, {"position": 3}), file=file)
    assert outcome == outcome_with(text)


WEST = {"cluster": "west", "topic": "orders", "partition": 0}
SHOWN = "{cluster=west, partition=0, topic=orders}"


def test_mirrored_offsets_are_checked() -> None:
    """`MirrorSourceConnector` accepts offsets of topic partitions of a cluster."""
    words = "as MirrorSourceConnector"
    assert outcome_of(words, (WEST, {"offset": 5}), ({}, None)) == ACCEPTED
    refused = HookFailure("Source partitions may not be null")
    assert outcome_of(words, (None, {"offset": 5})) == refused


@pytest.mark.parametrize(
    ("partition", "shown", "wrong"),
    [
        (
            {"topic": "orders", "partition": 0},
            "{partition=0, topic=orders}",
            "is missing the 'cluster' key, which is required",
        ),
        (
            WEST | {"topic": 7},
            "{cluster=west, partition=0, topic=7}",
            "has an invalid value 7 for the 'topic' key, which must be a string",
        ),
        (
            {"cluster": "west", "topic": "orders"},
            "{cluster=west, topic=orders}",
            "is missing the 'partition' key, which is required",
        ),
        (
            WEST | {"partition": 2**31},
            "{cluster=west, partition=2147483648, topic=orders}",
            "has an invalid value 2147483648 for the 'partition' key, which must be an integer",
        ),
        (
            WEST | {"partition": -1},
            "{cluster=west, partition=-1, topic=orders}",
            "has an invalid value -1 for the 'partition' key, which cannot be negative",
        ),
    ],
)
def test_malformed_mirrored_partitions_are_refused(partition: Any, shown: str, wrong: str) -> None:
    """The message shows the partition and its error."""
    outcome = outcome_of("as MirrorSourceConnector", (partition, {"offset": 1}))
    assert outcome == HookFailure(f"Source partition {shown} {wrong}")


@pytest.mark.parametrize(
    ("offset", "shown", "wrong"),
    [
        ({}, "{}", "is missing the 'offset' key, which is required"),
        (
            {"offset": "five"},
            "{offset=five}",
            "has an invalid value five for the 'offset' key, which must be an integer",
        ),
        (
            {"offset": -5},
            "{offset=-5}",
            "has an invalid value -5 for the 'offset' key, which cannot be negative",
        ),
    ],
)
def test_malformed_mirrored_offsets_are_refused(offset: Any, shown: str, wrong: str) -> None:
    """The message shows the offset and its partition."""
    outcome = outcome_of("as MirrorSourceConnector", (WEST, offset))
    assert outcome == HookFailure(f"Source offset {shown} for source partition {SHOWN} {wrong}")


def test_heartbeats_and_checkpoints_begin_at_zero() -> None:
    """Offsets of heartbeats and checkpoints have no meaning, so only 0 is valid."""
    beat = {"sourceClusterAlias": "west", "targetClusterAlias": "east"}
    group = {"group": "g", "topic": "orders", "partition": 0}
    for words, partition, shown in (
        ("as MirrorHeartbeatConnector", beat, "sourceClusterAlias=west, targetClusterAlias=east"),
        ("as MirrorCheckpointConnector", group, "partition=0, topic=orders, group=g"),
    ):
        assert outcome_of(words, (partition, {"offset": 0})) == ACCEPTED
        assert outcome_of(words, (partition, {"offset": 3})) == HookFailure(
            f"Source offset {{offset=3}} for source partition {{{shown}}} has an invalid value 3 "
            "for the 'offset' key; the only accepted value is 0"
        )


def test_the_first_invalid_offset_is_reported() -> None:
    """Offsets are checked in the order of the request."""
    wrong = [(FILE, {}), (None, {"position": 1})]
    message = "Offset objects should either be null or contain the key 'position'"
    outcome = outcome_of("as FileStreamSourceConnector", (FILE, None), *wrong, file="/a")
    assert outcome == HookFailure(message)

"""Printed output is stable and aligned; no line is blank or a comment, for any log."""

import asyncio
import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.scenario import transcript
from controlplane.scenario.folds import Folds
from controlplane.scenario.notation import key_text_of, text_of
from controlplane.scenario.scenario_file import parse
from controlplane.scenario.transcript import TranscriptRow
from controlplane.scenario.verbs import VERBS
from controlplane.scenario.views import VIEW_DEFINITIONS
from controlplane.scenario.world import World
from tests.conftest import examples
from tests.laws.entries import logs, profiles
from tests.scenario.playback import played, printed


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """Columns are two spaces apart; lines have no trailing space."""
    assert transcript.aligned([("a", "b", "c"), ("long", "", "x")], 0, 3) == [
        "a     b    c",
        "long       x",
    ]


def test_a_label_is_never_blank_and_never_a_comment() -> None:
    """A printed label can be expected output: it is neither blank nor a comment."""
    lines = transcript.table(None, [TranscriptRow("", ("x",)), TranscriptRow("#a", ("x",))])
    assert lines == ["(empty)  x", r"\x23a  x"]
    header = TranscriptRow("row", ("cell",))
    assert transcript.table(header, [TranscriptRow("", ("x",))]) == [
        "row         cell",
        "(empty)     x",
    ]


def test_empty_tables_and_logs_say_so() -> None:
    """A table without rows and a log without records print a line."""
    assert transcript.table(None, []) == ["(none)"]
    assert printed("cluster w1@3.9\n----\n\nlog config\n----\n") == ["(empty)"]


def test_numbers_in_labels_sort_by_value() -> None:
    """Numbers in labels sort by value, ties by text."""
    assert transcript.naturally(["a-10", "a-2", "a-02", "a", "b", "²"]) == [
        "a", "a-02", "a-2", "a-10", "b", "²",
    ]  # fmt: skip


def test_json_has_one_order() -> None:
    """Members are sorted at every level; invisible characters are escaped."""
    assert transcript.json_text({"b": [{"z": 1, "y": 1.5e10}], "a": "\u202e"}) == (
        r'{"a":"\xE2\x80\xAE","b":[{"y":1.5E10,"z":1}]}'
    )


async def world_of(entries: Sequence[Entry], profile: Profile) -> World:
    """World with a log, which a worker of this release and one of 3.4 read."""
    world = World(Folds())
    worker = f"a@{profile.release}{'+eos' if profile.exactly_once_support else ''}"
    steps = f"cluster {worker} b@3.4 partitions=3 commands=off\n----\n"
    await VERBS["cluster"](world, parse(steps, "x").steps[0])
    await world.add_topic(world.topics.commands, 3)
    await world.add_topic("own", 3)
    await world.log.put(entries)
    return world


async def every_view(world: World) -> list[str]:
    """All views and those of the log itself, one below the other."""
    steps = [f"view {name}" for name in VIEW_DEFINITIONS] + [
        "log config",
        "log offsets",
        "log status",
    ]
    lines: list[str] = []
    for step in (parse(f"{text}\n----\n", "x").steps[0] for text in steps):
        lines += await VERBS[step.verb](world, step)
        assert not world.disagreed, (step.text, lines)
    return lines


@settings(max_examples=examples(8, proved=10_000))
@given(logs(), profiles | st.just(Profile.of("kip")))
def test_every_log_can_be_printed(entries: list[Entry], profile: Profile) -> None:
    """Output of any log has no blank line or comment, and is the same each time.

    Bulk loader and fold agree: otherwise a line would say so.
    """
    world = asyncio.run(world_of(entries, profile))
    lines = asyncio.run(every_view(world))
    assert lines == asyncio.run(every_view(world))
    assert all(line == line.rstrip() != "" and len(line.splitlines()) == 1 for line in lines)
    assert not any(line.startswith("#") for line in lines)


@given(logs())
def test_given_records_are_in_the_log(entries: list[Entry]) -> None:
    """Printed records, given as input, have the same bytes at other offsets."""
    body = [f"{key_text_of(entry.key)}  {text_of(entry.value)}" for entry in entries]
    if not body:
        return
    steps = ["cluster w@3.9", "given config\n" + "\n".join(body), "log config"]
    scenario, results = played("".join(f"{step}\n----\n\n" for step in steps))
    shown = [line.split("  ", 1)[1].lstrip(" ") for line in results[-1].printed]
    assert scenario.steps[1].body == tuple(body)
    assert [re.sub(" {2,}", "  ", line, count=1) for line in shown] == [
        re.sub(" {2,}", "  ", line, count=1) for line in body
    ]

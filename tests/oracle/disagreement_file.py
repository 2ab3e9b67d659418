"""A disagreement as a scenario: the smallest log, and the answers of Kafka's classes.

The views print Kafka's answers as the expected output, so the scenario fails until the fold is
right. Facts that no view shows are in its first comment.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold, RecordFate
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.scenario.notation import key_text_of, text_of
from controlplane.scenario.run import play
from controlplane.scenario.scenario_file import parse, rewritten
from controlplane.scenario.transcript import TranscriptRow, naturally, table
from controlplane.scenario.verbs.view import cells_of, header_of
from controlplane.scenario.views import VIEW_DEFINITIONS, WorkerView
from tests.jars import ROOT
from tests.oracle.case import OWN, TOPICS, Case
from tests.oracle.comparable_answers import ComparableAnswer
from tests.oracle.comparison import LogDisagreement
from tests.oracle.kafka import KafkaOracle
from tests.oracle.kafkas_answer import of_kafka
from tests.oracle.kafkas_state import outcome_of, state_of
from tests.oracle.our_answer import told_of

SCENARIOS = ROOT / "scenarios" / "oracle"

VIEWS: Mapping[str, Sequence[str]] = {
    TOPICS.config: ("connectors", "tasks", "fencing", "worker"),
    TOPICS.offsets: ("offsets", "partitions"),
    OWN: ("offsets",),
    TOPICS.status: ("status", "topics"),
}
"""Views of each topic's state; `FATES` are the views of its records."""

FATES = ("outcomes", "calls")

WORKER = "w1"

Views = Mapping[str, list[str]]
"""Lines that each view prints, by name of the view."""


def keep(
    disagreement: LogDisagreement, folder: Path = SCENARIOS, profile: Profile | None = None
) -> Path:
    """Write the scenario of a disagreement, named after its release and seed.

    `profile`: the profile of our fold; None: that of the release.
    """
    entries = _renumbered(disagreement.case.visible_entries)
    with KafkaOracle(disagreement.release) as oracle:
        common = of_kafka(oracle.answer(Case(entries)))
    release = Profile.of(disagreement.release)
    kafkas = views(disagreement.release, entries, kafkas_reader(common, entries, release))
    ours = views(disagreement.release, entries, our_reader(entries, profile or release))
    file = folder / f"{_name(disagreement)}.scenario"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(_scenario(disagreement, entries, kafkas, ours), encoding="utf-8")
    return file


def _name(disagreement: LogDisagreement) -> str:
    """Name from release, seed and number of the log: `3.9.1-1-17`."""
    drawn = (part for part in disagreement.seed.split("/") if part != disagreement.release)
    return re.sub(r"[^\w.]+", "-", "-".join([disagreement.release, *drawn]))


def _renumbered(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries in the form of a scenario: without gaps, in one partition, committed."""
    ends = dict.fromkeys((entry.topic for entry in entries), 0)
    placed = []
    for entry in entries:
        place = {"partition": 0, "offset": ends[entry.topic], "aborted": False}
        placed.append(msgspec.structs.replace(entry, **place))
        ends[entry.topic] += 1
    return tuple(placed)


# --- what the views print of an answer ------------------------------------------------------


class _Fates:
    """Replaces a fold in views; the fates of its records are already known."""

    live = False

    def __init__(self, outcomes: Sequence[RecordFate]) -> None:
        self._rest = iter(outcomes)

    def apply(self, _: Entry) -> RecordFate:
        return next(self._rest)


class _KafkasReader(NamedTuple):
    """Kafka's answer in the form that a view reads."""

    state: ClusterState
    entries: Sequence[Entry]
    outcomes: Sequence[RecordFate]
    partitioned: frozenset[str] = frozenset()

    @property
    def fold(self) -> _Fates:
        return _Fates(self.outcomes)


def kafkas_reader(
    common: ComparableAnswer, entries: Sequence[Entry], profile: Profile
) -> WorkerView:
    """Kafka's answer to entries, readable by views."""
    fold, outcomes = Fold(profile, live=True), []
    for number, entry in enumerate(entries):
        mine, kafkas_fate = fold.apply(entry), common[f"record {number}"]
        # Kafka words the reasons differently: if both agree on the fate, ours is shown.
        outcomes.append(
            mine if told_of(mine, profile) == kafkas_fate else outcome_of(kafkas_fate, entry)
        )
    return cast("WorkerView", _KafkasReader(state_of(common, profile), entries, outcomes))


def our_reader(entries: Sequence[Entry], profile: Profile) -> WorkerView:
    """Our fold of entries, in the form that a view reads."""
    fold = Fold(profile)
    fold.apply_all(entries)
    return WorkerView(fold.snapshot(), entries)


def views(release: str, entries: Sequence[Entry], reader: WorkerView) -> Views:
    """Lines that each view of these entries prints for a reader."""
    topics = dict.fromkeys(entry.topic for entry in entries)
    names = [name for topic in topics for name in VIEWS[topic]]
    return {name: _printed(name, release, reader) for name in (*names, *FATES)}


def _printed(name: str, release: str, reader: WorkerView) -> list[str]:
    look = VIEW_DEFINITIONS[name]
    cells = cells_of(look, [reader])
    rows = [TranscriptRow(label, cells[label]) for label in naturally(cells)]
    return table(header_of(look, [f"{release} ({WORKER})"]), rows)


# --- the file -------------------------------------------------------------------------------


def _scenario(
    disagreement: LogDisagreement, entries: Sequence[Entry], kafkas: Views, ours: Views
) -> str:
    """The log as steps, and the views that differ, with Kafka's output."""
    shown = [name for name in kafkas if kafkas[name] != ours[name]]
    steps = [_head_comment(disagreement, shown), f"cluster {WORKER}@{disagreement.release}\n----"]
    for topic, part in groupby(entries, key=lambda entry: entry.topic):
        steps.append("\n".join([f"given {TOPICS.short(topic)}", *map(_body, part), "----"]))
    names = shown or [name for name in kafkas if name not in FATES]
    steps += [f"view {name}\n----" for name in names]
    scenario = parse("\n\n".join(steps) + "\n", disagreement.seed)
    played = asyncio.run(play(scenario))
    printed = [
        kafkas[result.step.words[0]] if result.step.verb == "view" else result.printed
        for result in played
    ]
    return rewritten(scenario, printed)


def _head_comment(disagreement: LogDisagreement, shown: Sequence[str]) -> str:
    lines = [
        f"This output is that of Kafka {disagreement.release}. Our fold gave another one.",
        "",
        f"The oracle found the log with the seed {disagreement.seed}, and reduced it.",
    ]
    if not shown:
        lines += ["No view shows these differences:"]
        lines += [
            line
            for name, pair in disagreement.differences.items()
            for line in _difference_lines(name, pair)
        ]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def _difference_lines(name: str, pair: tuple[Any, Any]) -> list[str]:
    kafka, ours = pair
    return [f"  {name}", f"    Kafka  {kafka!r}", f"    fold   {ours!r}"]


def _body(entry: Entry) -> str:
    return f"{key_text_of(entry.key)}  {text_of(entry.value)}"

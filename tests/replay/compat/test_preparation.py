"""A plan that is carried out leaves nothing to prepare: its commands do what they promise."""

import re
import shlex
from collections.abc import Iterator

import pytest

from controlplane.core.commands import PauseConnector, StopConnector
from controlplane.core.context import Context
from controlplane.core.decide import decide
from controlplane.core.entry import Entry
from controlplane.core.evolve import fold
from controlplane.core.plan import Plan
from controlplane.core.profiles import Profile
from controlplane.core.state import Topics
from replay.compat import Verdict, assess, roll
from replay.compat.steps import Step, When, copied, verb, written
from tests.replay.compat.pairs import PAIRS, V2_PAUSED
from tests.replay.compat.planting import CONFIG, STOPPED, Planted, running, stopped

VERBS: dict[str, type[StopConnector | PauseConnector]] = {
    "stop": StopConnector,
    "pause": PauseConnector,
}


def carried_out(log: list[Entry], step: Step, release: Profile) -> list[Entry]:
    """A log after a step of a plan, done as its command says."""
    words = shlex.split(step.command)
    if words[0] == "controlplane":
        records = list(asked(log, words[1], words[-1], release))
    elif words[0] == "printf":
        topic = words[words.index("-t") + 1]
        records = [(topic, words[2].encode(), words[3].encode() or None)]
    else:
        places = re.findall(r"kcat -C .*? -t (\S+) -p 0 -o (\d+) ", step.command)
        by_place = {(one.topic, one.offset): one for one in log}
        copies = [by_place[topic, int(offset)] for topic, offset in places]
        records = [(one.topic, one.key or b"", one.value) for one in copies]
    return [*log, *placed(log, records)]


Record = tuple[str, bytes, bytes | None]


def asked(log: list[Entry], word: str, name: str, release: Profile) -> Iterator[Record]:
    """What a worker writes that is asked."""
    plan = decide(fold(log, release), VERBS[word](name), Context(profile=release))
    assert isinstance(plan, Plan)
    for one in plan.steps:
        yield from ((draft.topic, draft.key, draft.value) for draft in one.records)


def placed(log: list[Entry], records: list[Record]) -> Iterator[Entry]:
    """Records at the end of their topics, later than all there is."""
    ends = {one.topic: one.offset + 1 for one in log}
    at_ms = max(one.timestamp for one in log)
    for topic, key, value in records:
        offset = ends.get(topic, 0)
        ends[topic] = offset + 1
        at_ms += 1
        yield Entry(topic, 0, offset, at_ms, key, value)


LOGS = {
    "a stop without its empty task set": (1, running().target("a", STOPPED)),
    "paused by an older worker": (3, PAIRS[3].planted),
    "a stop that older releases cannot read": (4, running().target("a", {"state": "STOPPED"})),
    "a target state that was removed": (5, PAIRS[5].planted),
    "tasks of a stopped connector": (6, stopped().tasks("a", 2)),
    "active topics of a deleted connector": (11, PAIRS[11].planted),
    "tasks older than the config": (12, PAIRS[12].planted),
    "tasks of a deleted connector": (13, running(tasks=2).gone("a")),
    "tasks of a name used again": (13, PAIRS[13].planted),
}


@pytest.mark.parametrize(("number", "log"), LOGS.values(), ids=LOGS)
def test_a_plan_that_is_carried_out_leaves_nothing_to_do(number: int, log: Planted) -> None:
    """Before: needs preparation, or unsafe. After: compatible."""
    pair = PAIRS[number]
    change = roll(Profile.of(pair.start), Profile.of(pair.goal), pair.mode)
    told = assess(log.entries, change)
    assert told.verdict is not Verdict.COMPATIBLE
    after = list(log.entries)
    for step in told.plan:
        knowing = change.goal if step.when is When.AFTER else change.newer
        after = carried_out(after, step, knowing)
    assert assess(after, change).verdict is Verdict.COMPATIBLE


def test_commands_are_safe_whatever_a_connector_is_called() -> None:
    """Names come from strangers, and plans are pasted into shells."""
    name = "a'; rm -rf $HOME #"
    assert shlex.split(verb("stop", name)) == ["controlplane", "stop", name]
    assert shlex.split(verb("stop", "--all")) == ["controlplane", "stop", "--", "--all"]
    line = written(CONFIG, 0, f"commit-{name}", '{"tasks":0}')
    assert shlex.split(line)[2] == f"commit-{name}"


@pytest.mark.parametrize("name", ["a\tb", "a\nrm -rf $HOME", "a\0"])
def test_names_that_no_line_can_hold(name: str) -> None:
    """What would end the key, or the record, is told and not done."""
    for value, words in (('{"tasks":0}', '{"tasks":0}'), ("", "a tombstone")):
        line = written(CONFIG, 0, f"commit-{name}", value)
        assert line.startswith(f"# write {words} to {CONFIG}-0 under commit-a\\")
        assert line.isprintable()


def test_a_copy_shows_no_secret() -> None:
    """Task configs may hold passwords: the plan names where they lie."""
    log = Planted().config("a").put(CONFIG, "task-a-0", {"properties": {"password": "s3cret"}})
    log.put(CONFIG, "commit-a", {"tasks": 1}).target("a", V2_PAUSED).config("a", rows="2")
    told = assess(log.entries, roll(Profile.of("3.4"), Profile.of("3.9")))
    (step,) = told.plan
    places = (log.entries[1].position, log.entries[2].position)
    assert step.command == copied(places)
    assert "s3cret" not in step.command
    assert Topics().config in step.command

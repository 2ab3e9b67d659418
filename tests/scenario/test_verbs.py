"""Verbs: cases that no scenario file shows, and errors of invalid steps."""

import pytest

from controlplane.core.codec import encode_command
from controlplane.core.records import (
    CommandAccepted,
    CommandFinished,
    CommandRecord,
    CommandRefused,
)
from controlplane.scenario.scenario_file import BadScenario
from controlplane.scenario.verbs import VERBS
from tests.scenario.playback import NAME, played, printed

CLUSTER = "cluster w1@3.4 w2@3.9 partitions=2\n----\n\n"

WRONG = {
    "given config\na  b": "1: there is no cluster yet: begin with `cluster w1@3.9`",
    "cluster": "1: the cluster has no worker: write `cluster w1@3.9`",
    "cluster w1": "1: `w1` is no worker: write it like w1@3.4 or w1@3.9+eos",
    "cluster a@3.4 a@3.5": "1: there are two workers a: name them differently",
    "cluster a@x": "1: unknown release 'x': use 0.9.0.0 to ",
    "cluster a@9.9": "1: release 9.9 is not known here: name the nearest, 4.3.0, or kip",
    "cluster a@3.9.7+eos": "1: release 3.9.7 is not known here: name the nearest, 3.9.2, or kip",
    "cluster a@3.2+eos": "1: 3.2.3 has no exactly-once support, which came with KIP-618: name a ",
    "cluster a@3.9 leader=b": "1: there is no worker b (there are: a)",
    "cluster a@3.9 partitions=0": "1: partitions=0: use 1 to 1000",
    "cluster a@3.9 steps=yes": "1: steps=yes: use on or off",
    "cluster a@3.9 stpes=on": "1: `cluster` has no option stpes= (known: leader=, partitions=, ",
    "wiew tasks": "1: `wiew` is not a verb: use cluster, compact, crash, given, log, roll, ",
}
"""First lines of a scenario, and the error for each."""

WRONG_LATER = {
    "cluster a@3.9": "4: a scenario has one cluster, and this is the second: remove it",
    "given": "4: `given` takes one word, and 0 are there",
    "given config": "4: no records: write one per line, key, two spaces, value",
    "given config\na  b\na b": "6: not a record: write key, two spaces, value (∅ for a tombstone)",
    "given stuff\na  b": "4: `stuff` is no topic: use config, offsets, status, commands",
    "given config topic=a\na  b": "4: only an offsets topic can have another name",
    "given offsets topic=a/b\na  b": "4: topic=a/b cannot be the name of a topic",
    "given status partition=2\na  b": "4: partition=2: the topic has 2, numbered from 0",
    "given status partition=-1\na  b": "4: partition=-1 is not a whole number",
    "given config clock=5\na  b": "4: clock=5 is not a time: write it like 5s or 250ms",
    "given config transaction=maybe\na  b": "4: transaction=maybe: use committed or aborted",
    "log config from=x": "4: from=x is not a whole number",
    "log config\nbody": "5: `log` takes no lines before ----",
    "compact offsets topic=own": "4: there is no topic own yet",
    "roll w3 to=3.5": "4: there is no worker w3 (there are: w1 w2)",
    "roll w1 to=5.0": "4: release 5.0 is not known here: name the nearest, 4.3.0, or kip",
    "roll w1": "4: name the new release of the worker: to=3.7",
    "roll w1 to=3.7 leader=w3": "4: there is no worker w3 (there are: w1 w2)",
    "GET /": "4: name the worker that gets the request: via=w1",
    "GET via=w1": "4: `GET` takes one word, and 0 are there",
    "GET / via=w3": "4: there is no worker w3 (there are: w1 w2)",
    "GET / via=w1\n{}": "5: `GET` takes no lines before ----",
    "PUT /connectors/a/fence via=w1 from=w3": "4: there is no worker w3 (there are: w1 w2)",
    "crash w3": "4: there is no worker w3 (there are: w1 w2)",
    "crash w1 behind=tasks": "4: `crash` has no option behind= (known: after=)",
    "crash w1 after=nonsense": "4: no plan has a step nonsense (there are: config, state, tasks, ",
    "crash w1 after=task-x": "4: no plan has a step task-x (there are: ",
    "start w1": "4: w1 runs already: `crash w1` first",
    "tick": "4: `tick` takes one word, and 0 are there",
    "tick soon": "4: `soon` is not a time: write it like 5s or 250ms",
    "tick 100000000000s": ("4: `100000000000s` is too long a time: write it with 9 digits at most"),
    "PUT connectors/x/stop via=w1": (
        "4: `connectors/x/stop` is no path: it begins with a slash, as in /connectors"
    ),
    "tick -5s": "4: time does not run back: `tick 5s`",
    "undo orders": "4: name the moment to restore: to=config@1",
    "undo orders to=config@0": "4: the log has no record at config@0: ",
    "undo orders to=config@0 offsets=all": "4: offsets=all: use on or off",
    "stabilize now": "4: `stabilize` takes no words, and 1 are there",
    "view all": "4: there is no view all: use connectors, tasks, status, topics, offsets, ",
}
"""Steps after `CLUSTER`, and the error for each."""

WRONG_WHEN_DOWN = {
    "crash w1": "7: w1 does not run: `start w1` first",
    "undo orders to=config@0": "7: w1 leads and does not run: `start w1` first",
    "roll w2 to=3.9 leader=w1": "7: leader=w1 does not run: `start w1` first",
}
"""Steps after a crash of `w1`, and the error for each."""

DOWN = CLUSTER + "crash w1\n----\n\n"

CASES = [
    *WRONG.items(),
    *((CLUSTER + text, message) for text, message in WRONG_LATER.items()),
    *((DOWN + text, message) for text, message in WRONG_WHEN_DOWN.items()),
]


@pytest.mark.parametrize(("text", "message"), CASES)
def test_bad_steps_are_reported_with_their_line(text: str, message: str) -> None:
    """One sentence shows how to write the step; the scenario ends."""
    with pytest.raises(BadScenario) as failure:
        played(f"{text}\n----\n")
    assert str(failure.value).startswith(f"{NAME}:{message}")


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_an_example(verb: str) -> None:
    """The docstring of a verb shows the step and its output."""
    text = VERBS[verb].__doc__ or ""
    assert f"\n        {verb}" in text
    assert "        ----\n" in text


def test_workers_are_sorted_by_release_and_then_by_name() -> None:
    """`kip` is last; within a release, exactly-once workers come after the others."""
    text = "cluster b@kip a@3.9+eos d@3.9 c@3.9 e@0.10.0\n----\n\nview worker\n----\n"
    assert printed(text)[0] == ("worker         0.10.0 (e)  3.9 (c d)  3.9+eos (a)  kip (b)")


def test_a_marker_takes_an_offset_in_each_partition() -> None:
    """The marker keeps its offset after compaction and before records without a transaction."""
    text = CLUSTER + (
        "given status transaction=aborted\na  1\nd  2\nf  3\n----\n\n"
        "compact status\n----\n\n"
        "given status partition=0\na  1\n----\n"
    )
    results = played(text)[1]
    assert results[1].printed == (
        "status@0",
        "status@1  marker: aborted",
        "status@1:0..1",
        "status@1:2  marker: aborted",
    )
    assert results[3].printed == ("status@2",)


def test_the_leader_stays_the_leader() -> None:
    """The leader keeps its role through a restart, unless a step names another."""
    text = CLUSTER + "roll w1 to=3.5+eos\n----\n"
    assert printed(text) == ["w1 3.4 -> 3.5+eos", "leader w1@3.5+eos"]
    assert printed(text + "\nroll w2 to=4.3 leader=w2\n----\n")[1] == "leader w2@4.3"


REFUSED = CommandRefused("k", 1, "ana", {"command": "pause"}, "no")
ACCEPTED = CommandAccepted("k", 2, "ana", {"command": "stop"})
FINISHED = CommandFinished("k", 3, {"ended": "done"})


@pytest.mark.parametrize(
    ("records", "row"),
    [
        ([REFUSED], "pause: refused, no"),
        ([REFUSED, ACCEPTED], "stop: unfinished"),
        ([REFUSED, ACCEPTED, FINISHED], "stop: done"),
    ],
)
def test_an_accepted_command_may_use_the_id_of_a_refused_one(
    records: list[CommandRecord], row: str
) -> None:
    """The view shows the accepted command and its outcome."""
    lines = [b"  ".join(encode_command(record)).decode() for record in records]
    text = (
        "cluster w1@kip\n----\n\ngiven commands\n"
        + "\n".join(lines)
        + "\n----\n\nview commands\n----\n"
    )
    assert printed(text) == [f"k  {row}"]

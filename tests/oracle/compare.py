"""Kafka's stores and our fold on the same logs; where they disagree, the smallest such log."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.profiles import Profile
from controlplane.scenario.notation import key_text_of, text_of
from tests.oracle.case import TOPICS, Case
from tests.oracle.common import differences
from tests.oracle.kafka import Oracle
from tests.oracle.kafkas_answer import of_kafka
from tests.oracle.our_answer import of_fold
from tests.oracle.shrink import smallest

Differences = Mapping[str, tuple[Any, Any]]
"""What differs → (Kafka's, ours)."""

SHOWN = 400
"""Characters of a key, a value or an answer that are printed."""

VIEWS = {TOPICS.config: ("connectors", "tasks"), TOPICS.status: ("status",)}


class Disagreement(NamedTuple):
    """A log of which Kafka's classes make something else than our fold."""

    release: str
    case: Case
    differences: Differences


def disagreements(oracle: Oracle, cases: Iterable[Case]) -> Iterator[Disagreement]:
    """Every case on which the two disagree, as it was drawn."""
    profile = Profile.of(oracle.release)
    for case, answer in oracle.answers(cases):
        found = differences(of_kafka(answer), of_fold(case, profile))
        if found:
            yield Disagreement(oracle.release, case, found)


def shrunk(found: Disagreement) -> Disagreement:
    """The smallest case that differs in what the given one differs in first."""
    profile = Profile.of(found.release)
    sort = _sort(found.differences)
    with Oracle(found.release) as oracle:

        def compared(case: Case) -> Differences:
            return differences(of_kafka(oracle.answer(case)), of_fold(case, profile))

        case = smallest(found.case, lambda case: sort == _sort(compared(case)))
        return Disagreement(found.release, case, compared(case))


def _sort(found: Differences) -> str | None:
    """What a disagreement is about first; which record it is does not matter."""
    first = next(iter(found), None)
    return first and first.split(" ")[0]


def explained(found: Disagreement) -> str:
    """The log beside both answers, for people."""
    startup, entries, batch = found.case.startup, found.case.entries, found.case.batch
    read = f", read in batches of {batch}" if batch else ""
    lines = [f"{found.release}: Kafka's classes and our fold disagree about this log{read}"]
    lines += [_line(number, entry, startup) for number, entry in enumerate(entries)]
    for name, (kafka, ours) in found.differences.items():
        lines += [f"  {name}", f"    Kafka  {kafka!s:.{SHOWN}}", f"    fold   {ours!s:.{SHOWN}}"]
    return "\n".join(lines)


def _line(number: int, entry: Entry, startup: int) -> str:
    moment = "at start" if number < startup else "live"
    key, value = key_text_of(entry.key), text_of(entry.value)
    topic = TOPICS.short(entry.topic)
    return f"  record {number} ({moment})  {topic}@{entry.offset}  {key:.{SHOWN}}  {value:.{SHOWN}}"


def scenario(found: Disagreement) -> str:
    """The log as a scenario file. What is expected is left to be filled in: by the right answer."""
    about = ", ".join(found.differences)
    steps = [
        f"# Kafka {found.release} and our fold disagree about: {about}.",
        f"cluster w1@{found.release}\n----\nok",
    ]
    for topic, entries in groupby(found.case.entries, key=lambda entry: entry.topic):
        steps.append("\n".join([f"given {TOPICS.short(topic)}", *map(_body, entries), "----"]))
    topics = {entry.topic for entry in found.case.entries}
    views = [view for topic in sorted(topics) for view in VIEWS.get(topic, ("offsets",))]
    steps += [f"view {view}\n----" for view in views]
    return "\n\n".join(steps) + "\n"


def _body(entry: Entry) -> str:
    return f"{key_text_of(entry.key)}  {text_of(entry.value)}"

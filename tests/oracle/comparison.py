"""Comparison of Kafka's stores with our fold on equal logs, and the smallest log that differs."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.scenario.notation import key_text_of, text_of
from tests.oracle.case import TOPICS, Case
from tests.oracle.comparable_answers import differences
from tests.oracle.kafka import KafkaOracle, StoreAnswer
from tests.oracle.kafkas_answer import of_kafka
from tests.oracle.logs import cases
from tests.oracle.our_answer import of_fold, of_loader
from tests.oracle.smallest_case import smallest

Differences = Mapping[str, tuple[Any, Any]]
"""Name of a differing part → (Kafka's, ours)."""

SHOWN = 400
"""Characters of a key, a value or an answer that are printed."""


class LogDisagreement(NamedTuple):
    """A log for which Kafka's classes and our fold give different answers."""

    release: str
    seed: str
    """Seed that the case was drawn from (`logs.case`)."""
    case: Case
    differences: Differences


def disagreements(
    oracle: KafkaOracle, seed: str, count: int, profile: Profile | None = None, *, first: int = 0
) -> Iterator[LogDisagreement]:
    """Every case with different answers among `count` cases that a seed generates.

    `first`: number of the first case.
    `profile`: the profile of our fold; None: that of the release.
    """
    profile = profile or Profile.of(oracle.release)
    answers = oracle.answers(islice(cases(seed), first, first + count))
    for number, (case, answer) in enumerate(answers, first):
        differing = compared(answer, case, profile)
        if differing:
            yield LogDisagreement(oracle.release, f"{seed}/{number}", case, differing)


def compared(answer: StoreAnswer, case: Case, profile: Profile) -> Differences:
    """Differences between Kafka's answer to a case and ours, in order or in bulk."""
    kafka = of_kafka(answer)
    differing = differences(kafka, of_fold(case, profile))
    if differing or case.batch:
        return differing
    held = {
        name: value for name, value in kafka.items() if not name.startswith(("record ", "died"))
    }
    loaded = differences(held, of_loader(case, profile))
    return {f"loaded {name}": pair for name, pair in loaded.items()}


def shrunk(disagreement: LogDisagreement, profile: Profile | None = None) -> LogDisagreement:
    """The smallest case whose first difference is the first one of the given case."""
    profile = profile or Profile.of(disagreement.release)
    sort = _sort(disagreement.differences)
    with KafkaOracle(disagreement.release) as oracle:

        def judged(case: Case) -> Differences:
            return compared(oracle.answer(case), case, profile)

        case = smallest(disagreement.case, lambda case: sort == _sort(judged(case)))
        return disagreement._replace(case=case, differences=judged(case))


def _sort(differing: Differences) -> str | None:
    """Kind of a disagreement: its first difference, without the record's number."""
    first = next(iter(differing), None)
    return first and first.split(" ")[0]


def explained(disagreement: LogDisagreement) -> str:
    """The log beside both answers, as text."""
    case = disagreement.case
    startup, entries, batch = case.startup, case.entries, case.batch
    sizes = ", ".join(map(str, batch))
    read = f", read in batches of {sizes} over and over" if batch else ""
    read += ", with exactly-once support" if case.exactly_once else ""
    lines = [f"{disagreement.release}: Kafka's classes and our fold disagree about this log{read}"]
    lines += [_line(number, entry, startup) for number, entry in enumerate(entries)]
    for name, (kafka, ours) in disagreement.differences.items():
        lines += [f"  {name}", f"    Kafka  {kafka!s:.{SHOWN}}", f"    fold   {ours!s:.{SHOWN}}"]
    return "\n".join(lines)


def _line(number: int, entry: Entry, startup: int) -> str:
    moment = "at start" if number < startup else "live"
    key, value = key_text_of(entry.key), text_of(entry.value)
    place = f"{TOPICS.short(entry.topic)}@{entry.offset}" + (", aborted" if entry.aborted else "")
    return f"  record {number} ({moment})  {place}  {key:.{SHOWN}}  {value:.{SHOWN}}"

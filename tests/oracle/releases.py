"""Writes `docs/releases.md`: each edge case of the three topics, per release, as Kafka answers.

python -m tests.oracle.releases          writes the file

python -m tests.oracle.releases --check  exits with code 1 if the file is not current
"""

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from controlplane.core.releases.profiles import Profile
from tests.jars import ROOT
from tests.oracle.case import TOPICS
from tests.oracle.comparable_answers import ComparableAnswer
from tests.oracle.edges_of_classes import KafkaQuestion, WrittenAnswers
from tests.oracle.edges_of_config import CONFIG_EDGES
from tests.oracle.edges_of_others import OTHER_EDGES
from tests.oracle.kafka import KafkaOracle
from tests.oracle.kafkas_answer import of_kafka
from tests.oracle.oracle_releases import ASKED
from tests.oracle.our_answer import of_fold
from tests.oracle.probe import Edge, Probe
from tests.oracle.worker_writes import writing_answers

FILE = ROOT / "docs" / "releases.md"
EDGES: tuple[Edge, ...] = (*CONFIG_EDGES, *OTHER_EDGES)

CELLS = re.compile(r"(?<!\\) *\| *")
"""Separator of the cells of a row; within a cell a bar is escaped."""

WIDTH = 100
"""Characters of a line of text; rows of tables may be longer."""

NO_STATUS = "there is no status topic"
NOT_ASKED = "not tested: no such class, or it needs a broker"

EdgeQuestion = Probe | KafkaQuestion

EdgeAnswer = tuple[str, str | None]
"""Kafka's answer and ours; None if we have no such function."""

HEAD = """# Sharp edges, release by release

Each section shows one *edge*: records that Kafka's releases read differently, or unexpectedly.

The columns:

* **records** – the records of the log, in order; or a **case**, where no log shows the edge;
* **releases** – releases that read them alike;
* **Kafka's classes** – how `KafkaConfigBackingStore`, `KafkaStatusBackingStore` and
  `KafkaOffsetBackingStore` of the published jars read them;
* **this project** – how the fold reads them with the profile of the release. *The same*: it agrees
  with Kafka's classes. A dash: not tested, or this project has no such function.

The three edges with cases test other classes, or settings: `ConnectorOffsetBackingStore` (27), the
consumer settings of the three stores (28) and `KafkaStatusBackingStore.CacheEntry` (30).

`python -m tests.oracle.releases` writes this page, and a test keeps it current. Fates of a record:

* **accepted** – it is read as valid. Most such records change the state. Others are events,
  such as a restart request, or find nothing to change;
* **ignored** – it is logged, and the previous value stays;
* **undecodable** – it is ignored, and the config offset does not count it;
* **loses batch** – an exception skips the rest of the fetched batch;
* **poison** – an exception ends a starting worker, and stops or damages a running one.
  NPE is `NullPointerException`, IAE `IllegalArgumentException`.

**offset 1** is the config offset after all records of the row. The last decoded record has the
offset before it: 0.
"""


def document() -> str:
    """Return the text of the whole file."""
    answers = {release: _answers(release) for release in ASKED}
    rows = [row for release_answers in answers.values() for row in release_answers.values()]
    differing = sum(ours not in (kafka, None) for kafka, ours in rows)
    count = sum(len(edge.probes) + len(edge.questions) for edge in EDGES)
    lines = [HEAD, textwrap.fill(f"Releases tested: {', '.join(ASKED)}.", WIDTH), ""]
    lines += [f"{count} logs and cases, each in {len(ASKED)} releases. Disagreements: {differing}."]
    for edge in sorted(EDGES, key=lambda edge: edge.number):
        lines += _section(edge, answers)
    return "\n".join(lines) + "\n"


def _answers(release: str) -> Mapping[EdgeQuestion, EdgeAnswer]:
    """The answers of one release to every question."""
    profile = Profile.of(release)
    classes = writing_answers(release)
    class_answers = {
        question: _edge_answer(question, classes, profile)
        for edge in EDGES
        for question in edge.questions
    }
    probes = [probe for edge in EDGES for probe in edge.probes]
    with KafkaOracle(release) as oracle:
        store_answers = oracle.answers(probe.case for probe in probes)
        return class_answers | {
            probe: (
                _probe_view(probe, of_kafka(answer)),
                _probe_view(probe, of_fold(case, profile)),
            )
            for probe, (case, answer) in zip(probes, store_answers, strict=True)
        }


def _edge_answer(question: KafkaQuestion, classes: WrittenAnswers, profile: Profile) -> EdgeAnswer:
    answer = question.kafka(classes)
    if answer is None:
        return NOT_ASKED, None
    return answer, None if question.ours is None else question.ours(profile)


def _probe_view(probe: Probe, answer: ComparableAnswer) -> str:
    of_status = probe.case.entries[0].topic == TOPICS.status
    return NO_STATUS if of_status and "status.tasks" not in answer else probe.look(answer)


def rows_of(release: str) -> list[tuple[str, str]]:
    """Kafka's answer and the verdict on ours, for one release, in the order of the page."""
    answers = _answers(release)
    rows: list[EdgeAnswer] = []
    for edge in sorted(EDGES, key=lambda edge: edge.number):
        questions: tuple[EdgeQuestion, ...] = (*edge.probes, *edge.questions)
        rows += [answers[question] for question in questions]
    return [(_cell(row[0]), _verdict(row)) for row in rows]


def rows_in(page: str, release: str) -> list[tuple[str, str]]:
    """Kafka's answers and our verdicts for a release, as read from the page."""
    cells = (CELLS.split(line.strip("| ")) for line in page.splitlines() if line.startswith("| "))
    rows = (row[-3:] for row in cells if "releases" not in row)
    return [(kafka, verdict) for span, kafka, verdict in rows if release in _spanned(span)]


def _spanned(span: str) -> tuple[str, ...]:
    """Releases of a cell: `all`, one, or the first and the last."""
    if span == "all":
        return ASKED
    first, _, last = span.partition(" – ")
    return ASKED[ASKED.index(first) : ASKED.index(last or first) + 1]


def _section(edge: Edge, answers: Mapping[str, Mapping[EdgeQuestion, EdgeAnswer]]) -> Iterator[str]:
    yield f"\n## {edge.number}. {edge.says}\n"
    questions: tuple[EdgeQuestion, ...] = (*edge.probes, *edge.questions)
    if questions:
        subject = "records" if edge.probes else "case"
        yield f"| {subject} | releases | Kafka's classes | this project |"
        yield "|---|---|---|---|"
    for question in questions:
        by_release = [(release, answers[release][question]) for release in ASKED]
        for number, (row, group) in enumerate(groupby(by_release, key=lambda pair: pair[1])):
            log = "" if number else question.log
            yield _line(log, [release for release, _ in group], row)
    if edge.note:
        note = textwrap.fill(edge.note, WIDTH)
        yield f"\n{note}" if questions else note


def _line(log: str, releases: list[str], row: EdgeAnswer) -> str:
    return f"| {_cell(log)} | {_span(releases)} | {_cell(row[0])} | {_verdict(row)} |"


def _verdict(row: EdgeAnswer) -> str:
    kafka, ours = row
    if ours is None:
        return "–"
    return "the same" if kafka == ours else f"**differs: {_cell(ours)}**"


def _span(releases: list[str]) -> str:
    if tuple(releases) == ASKED:
        return "all"
    return releases[0] if len(releases) == 1 else f"{releases[0]} – {releases[-1]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: Iterable[str]) -> int:
    """Write the file, or with `--check` only compare it; return the exit code."""
    fresh = document()
    if "--check" in arguments:
        return int(not FILE.exists() or FILE.read_text(encoding="utf-8") != fresh)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Service, Spark and SQL compute the same, or the test prints the smallest log.

All three compute configs and offsets. Only service and Spark compute statuses, and releases that
SQL does not know (here and in `test_two_folds`). Kafka's own classes check the service
(`tests/oracle`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.order import before
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import Topics
from controlplane.scenario.folds import FoldTask
from controlplane.scenario.story import read_story
from replay.archive.segments.segment_files import SegmentSizes
from replay.engine.slices import LIMITS
from tests.conftest import PROVE
from tests.laws.entries import logs
from tests.recorded_requests import EXACTLY_ONCE, HISTORIES, recorded_entries
from tests.replay.engine.test_local import STORIES, observed, spread, vector
from tests.replay.spark.smallest_log import disagreement
from tests.replay.spark.three_answers import (
    FoldAnswers,
    FoldQuestion,
    ThreeFolds,
    jobs_done,
    sampled_prefixes,
)
from tests.replay.sql.dense import dense_logs
from tests.replay.sql.oracle import RELEASES, Cut, SqlOracle
from tests.replay.sql.sql_logs import followed, whole_cut

pytestmark = pytest.mark.java

LOGS = 1_500 if PROVE else 8

FOLLOWED = STORIES if PROVE else ["exactly-once-3.9", "roll-3.4-3.9-3.4"]
"""Recorded clusters. In `make test`, `test_local` follows more of them."""

LEAST_QUESTIONS = 250 if PROVE else 50
DRAWN = LOGS * 3 // 2
"""Number of drawn logs. Some are duplicates, or have nothing that SQL can follow."""

RELEASES_IN_SQL = [Profile.of(release) for release in RELEASES]


def drawn(strategy: st.SearchStrategy[list[Entry]], count: int) -> list[list[Entry]]:
    """Random logs of hypothesis, simple ones and odd ones."""
    drawn_logs: list[list[Entry]] = []

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(log: list[Entry]) -> None:
        drawn_logs.append(log)

    collect()
    return drawn_logs


def asks_about_each(logs: Sequence[Sequence[Entry]]) -> list[FoldTask]:
    """Question per log and release.

    A log with aborted records gets a second one, with exactly-once support, if the release has it.
    """
    return [
        FoldTask(tuple(log), profile, Topics(), exactly_once)
        for log in logs
        for exactly_once in ((False, True) if any(entry.aborted for entry in log) else (False,))
        for profile in RELEASES_IN_SQL
        if profile.exactly_once_support or not exactly_once
    ]


@pytest.fixture(scope="module")
def oracle() -> SqlOracle:
    """Oracle that all tests share; each archive replaces the one before."""
    return SqlOracle()


def test_service_spark_and_sql_agree_about_random_logs(
    spark: SparkSession, oracle: SqlOracle
) -> None:
    """Spark in one job, SQL in a few queries and the service agree about the same logs.

    Offset keys in two partitions need one more job of Spark for all logs together.
    """
    random_logs = drawn(dense_logs() | dense_logs() | logs(), DRAWN)
    named = {str(number): spread(log) for number, log in enumerate(random_logs)}
    different = filter(None, dict.fromkeys(map(tuple, followed(oracle, named).values())))
    asks = asks_about_each(list(different)[:LOGS])
    assert len({ask.entries for ask in asks}) == LOGS
    three, before = ThreeFolds(spark, oracle), jobs_done(spark)
    assert disagreement(asks, partial(three.differ, moments=sampled_prefixes), three.differ) == ""
    assert jobs_done(spark) - before == 2


def test_service_spark_and_sql_agree_at_every_observed_point(
    spark: SparkSession, oracle: SqlOracle
) -> None:
    """The programs agree after each step of a story, for SQL's releases and the observed ones.

    At the end they agree for every release.
    """
    histories = {name: recorded_entries(name) for name in FOLLOWED}
    three = ThreeFolds(spark, oracle, SegmentSizes(40, 16), LIMITS._replace(slice_rows=50))
    questions = [question for name in FOLLOWED for question in asked_of(name, histories[name])]
    answers = list(three.answers(histories, questions))
    wrong = {
        text: ask
        for answer in answers
        for ask, text in zip(up_to(answer, histories), answer.disagreements(), strict=True)
        if text
    }
    assert list(wrong) == [], disagreement(list(wrong.values())[:1], three.differ)
    assert len(answers) == len(questions) > LEAST_QUESTIONS


def asked_of(name: str, log: Sequence[Entry]) -> Iterator[FoldQuestion]:
    """Questions about the points after the steps of a history, and about its end.

    Each is also asked with exactly-once support if the workers had it, or records were aborted.
    """
    steps = read_story(HISTORIES / f"{name}.story.jsonl")
    releases_by_point = observed(steps)
    points = {vector(step): step.positions for step in steps if step.positions}
    moments = [
        *(
            (Cut(ends, cluster=name), releases_by_point.get(point, []))
            for point, ends in points.items()
        ),
        (whole_cut(log, name), PROFILES),
    ]
    supported = name in EXACTLY_ONCE or any(entry.aborted for entry in log)
    for exactly_once in (False, True) if supported else (False,):
        for cut, others in moments:
            readers = dict.fromkeys([*RELEASES_IN_SQL, *others])
            able = [reader for reader in readers if reader.exactly_once_support or not exactly_once]
            yield FoldQuestion(cut._replace(exactly_once=exactly_once), able)


def up_to(answers: FoldAnswers, logs: Mapping[str, Sequence[Entry]]) -> list[FoldTask]:
    """Return a task per reader that folds the log, cut at the moment of the question."""
    cut, readers = answers.question
    log = tuple(before(logs[cut.cluster], cut.ends or {}))
    return [FoldTask(log, reader, Topics(), cut.exactly_once) for reader in readers]

"""Spark and the service compute equal states, statuses included, from random logs."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.scenario.folds import FoldTask
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.query import StateQuery
from replay.engine.spark.engine import SparkEngine
from replay.engine.states.state_digest import digest
from replay.refold import SparkFold
from tests.conftest import PROVE
from tests.laws.entries import logs, profiles
from tests.replay.archive.archives import SMALL, archive, log_of, served
from tests.replay.engine.test_local import moments, spread
from tests.replay.spark.smallest_log import disagreement
from tests.replay.spark.three_answers import SLICED, jobs_done

pytestmark = pytest.mark.java

LOGS = 1_500 if PROVE else 30
DRAWN = LOGS * 3 // 2
"""Number of drawn logs; some are duplicates."""
CUT_UP = 200 if PROVE else 3
"""Number of logs whose every prefix is compared: each has some dozens of questions."""


def random_asks(count: int) -> list[FoldTask]:
    """Questions about random logs of hypothesis, simple ones and odd ones."""
    tasks: list[FoldTask] = []

    @settings(max_examples=count, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(logs(), profiles, st.booleans())
    def collect(log: list[Entry], profile: Profile, exactly_once: bool) -> None:
        alike = exactly_once and profile.exactly_once_support
        tasks.append(FoldTask(tuple(log), profile, Topics(), alike))

    collect()
    return tasks


def by_the_service(ask: FoldTask) -> ClusterState:
    """State that the service folds from a log."""
    log = log_of(list(ask.entries))
    return served(log, None, [ask.profile], exactly_once=ask.exactly_once)[0]


def test_spark_folds_random_logs_as_the_service(spark: SparkSession) -> None:
    """Spark folds the same states from random logs as the service, in two jobs.

    The second job is for offset keys that lie in two partitions; it covers all logs.
    """
    in_spark = SparkFold(spark, SMALL, SLICED)

    def differ(asks: Sequence[FoldTask]) -> list[str]:
        spark_states = in_spark(asks)
        expected = [by_the_service(ask) for ask in asks]
        return [
            ""
            if spark_state == service_state and digest(spark_state) == digest(service_state)
            else f"Spark: {spark_state}\n{service_state}"
            for spark_state, service_state in zip(spark_states, expected, strict=True)
        ]

    asks = list({ask.entries: ask for ask in random_asks(DRAWN)}.values())[:LOGS]
    assert len(asks) == LOGS
    before = jobs_done(spark)
    assert disagreement(asks, differ) == ""
    assert jobs_done(spark) - before == 2


def test_spark_has_the_states_of_the_service_after_every_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark gives the service's state after every record and at every time of random logs.

    One call answers all queries. Every second log is read from its segments only. The others are
    read with derived files: snapshots, and winners (rows of a segment that may still count).
    """
    queries, expected = [], []
    for number, ask in enumerate(random_asks(CUT_UP)):
        log, readers = spread(list(ask.entries)), [ask.profile]
        cluster, source = archive(tmp_path / str(number), log), log_of(log)
        local = LocalEngine(cluster, LocalOptions(ask.exactly_once, derived=number % 2 == 0))
        for moment in moments(log):
            with suppress(UnknownMoment):  # the record is in a topic that no worker reads
                expected.append(served(source, moment, readers, exactly_once=ask.exactly_once))
                queries.append(StateQuery(local, local.plan(moment, readers), readers))
    assert len(expected) > CUT_UP
    assert SparkEngine(spark, SLICED).states(queries) == expected

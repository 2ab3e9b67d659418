"""SQL, the engine and the service compute equal configs and offsets."""

from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.scenario.story import read_story
from replay.archive.segments.segment_files import SegmentSizes
from replay.engine.local_engine import LocalOptions
from tests.conftest import PROVE, examples, sampled
from tests.laws.entries import logs
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import NAME, archive, log_of, replayed, served
from tests.replay.sql.dense import dense_logs
from tests.replay.sql.oracle import RELEASES, TOPICS, Cut, SqlOracle, TableLine, lines_of
from tests.replay.sql.sql_logs import followed, whole_cut

pytestmark = pytest.mark.slow

STORIES = sorted(path.name.removesuffix(".story.jsonl") for path in HISTORIES.glob("*.story.jsonl"))

EXAMPLES = examples(5, proved=1_500)
RECORDS = 1_000_000 if PROVE else 8_000
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
"""Phases of hypothesis, with shrinking: a failure shows its smallest log."""

PROFILES = {release: Profile.of(release) for release in RELEASES}

READ = (TOPICS.config, TOPICS.offsets)


@pytest.fixture(scope="module")
def oracle() -> SqlOracle:
    """Oracle that all tests share; each log replaces the one before."""
    return SqlOracle()


def agree(sql: set[TableLine], others: dict[str, set[TableLine]]) -> None:
    """Compare sets of lines; fail with the lines that one of them lacks."""
    for name, lines in others.items():
        assert sql == lines, "\n".join(
            [
                *(f"only {name}: {line}" for line in sorted(lines - sql)),
                *(f"only SQL: {line}" for line in sorted(sql - lines)),
            ]
        )


@pytest.mark.parametrize("name", sampled(STORIES, "exactly-once-3.9"))
def test_sql_engine_and_service_agree_at_every_observed_point(
    name: str, oracle: SqlOracle, tmp_path: Path
) -> None:
    """SQL, engine and service agree for all three releases after each step of a history."""
    log = recorded_entries(name)
    cluster, source = archive(tmp_path, log, SegmentSizes(40, 16)), log_of(log)
    oracle.archive(tmp_path)
    steps = read_story(HISTORIES / f"{name}.story.jsonl")
    points = {msgspec.json.encode(step.positions).decode() for step in steps if step.positions}
    moments = sorted(points)
    cuts = [Cut(msgspec.json.decode(moment)) for moment in moments]
    answer = oracle.answer(cuts)
    assert not any(answer.unfollowed)
    profiles = list(PROFILES.values())
    for number, moment in enumerate(moments):
        local, service = replayed(cluster, moment, profiles), served(source, moment, profiles)
        for release, replayed_state, served_state in zip(RELEASES, local, service, strict=True):
            lines = answer.lines[number, release]
            agree(lines, {"engine": lines_of(replayed_state), "service": lines_of(served_state)})


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(dense_logs() | dense_logs() | logs(40, READ), st.data())
def test_sql_engine_and_service_agree_after_every_record(
    oracle: SqlOracle, log: list[Entry], data: st.DataObject
) -> None:
    """SQL agrees with `Fold` after every record, and with engine and service after a random one.

    If the log has aborted records, `Fold` also reads it with exactly-once support.
    """
    log = followed(oracle, {NAME: log})[NAME]
    if not log:
        return
    ordered = in_order(log)
    with TemporaryDirectory() as folder:
        cluster = archive(Path(folder), log)
        oracle.archive(Path(folder))
        readers = (False, True) if any(entry.aborted for entry in log) else (False,)
        cuts = [
            Cut(record=entry.position, exactly_once=exactly_once)
            for exactly_once in readers
            for entry in ordered
        ]
        answer = oracle.answer(cuts)
        for exactly_once, first in zip(readers, (0, len(ordered)), strict=False):
            for release, profile in PROFILES.items():
                if exactly_once and not profile.exactly_once_support:
                    continue
                worker = Fold(profile, exactly_once=exactly_once)
                for number, entry in enumerate(ordered):
                    worker.apply(entry)
                    note(f"{release} behind {entry.position}, exactly once: {exactly_once}")
                    lines = lines_of(worker.snapshot())
                    agree(answer.lines[first + number, release], {"fold": lines})
        at = data.draw(st.integers(0, len(ordered) - 1))
        position = ordered[at].position
        moment = f"{position.topic}@{position.partition}:{position.offset}"
        profiles = list(PROFILES.values())
        for derived in (False, True):
            states = replayed(cluster, moment, profiles, LocalOptions(derived=derived))
            for release, state in zip(RELEASES, states, strict=True):
                note(f"{release} as of {moment}, derived: {derived}")
                agree(answer.lines[at, release], {"engine": lines_of(state)})
        for release, state in zip(RELEASES, served(log_of(log), moment, profiles), strict=True):
            agree(answer.lines[at, release], {"service": lines_of(state)})


def large_log(records: int) -> list[Entry]:
    """Deterministic log: connectors are created, deleted and created again, and have offsets."""
    chance, ends = Random(7), dict.fromkeys(((TOPICS.config, 0), *OFFSETS), 0)
    log: list[Entry] = []
    names = [f"connector-{number}" for number in range(records // 200)]
    while len(log) < records:
        name = chance.choice(names)
        topic, partition, pairs = _happening(chance, name)
        for key, value in pairs:
            offset = ends[topic, partition]
            ends[topic, partition] = offset + 1
            time_ms = 1_000 * len(log) // 7 + chance.randrange(900)
            log.append(Entry(topic, partition, offset, time_ms, key.encode(), value))
    return log


OFFSETS = tuple((TOPICS.offsets, partition) for partition in range(5))


def _happening(chance: Random, name: str) -> tuple[str, int, list[tuple[str, bytes | None]]]:
    draw, number = chance.random(), chance.randrange(1_000_000)
    if draw < 0.6:
        partition = chance.randrange(4)
        key = f'["{name}",{{"table":"t{number % 50}"}}]'
        value = None if chance.random() < 0.1 else b'{"row":%d}' % number
        return (
            TOPICS.offsets,
            (hash_of(key) + (partition == 0 and number % 7 == 0)) % 5,
            [(key, value)],
        )
    pairs: list[tuple[str, bytes | None]]
    if draw < 0.7:
        states = (b'{"state":"STARTED"}', b'{"state":"PAUSED","state.v2":"STOPPED"}', None)
        pairs = [(f"target-state-{name}", chance.choice(states))]
    elif draw < 0.75:
        pairs = [(f"connector-{name}", None), (f"target-state-{name}", None)]
    elif draw < 0.8:
        pairs = [(f"tasks-fencing-{name}", b'{"task-count":%d}' % (number % 4))]
    else:
        config = b'{"properties":{"name":"%b","rows":"%d"}}' % (name.encode(), number)
        tasks = [f"task-{name}-{task}" for task in range(3) if chance.random() < 0.9]
        pairs = [(f"connector-{name}", config)] if chance.random() < 0.7 else []
        pairs += [(key, b'{"properties":{"rows":"%d"}}' % number) for key in tasks]
        pairs.append((f"commit-{name}", b'{"tasks":%d}' % chance.randrange(4)))
    return TOPICS.config, 0, pairs


def hash_of(text: str) -> int:
    """Hash of a text that is equal in every process."""
    return int.from_bytes(sha256(text.encode()).digest()[:4])


def digest(lines: set[TableLine]) -> str:
    """Hash of a set of lines."""
    return sha256(repr(sorted(lines)).encode()).hexdigest()


def test_a_larger_archive_has_equal_digests(oracle: SqlOracle, tmp_path: Path) -> None:
    """SQL and engine have equal digests at the end and in the middle of the archive."""
    log = large_log(RECORDS)
    cluster = archive(tmp_path, log, SegmentSizes(RECORDS // 5, RECORDS // 10))
    oracle.archive(tmp_path)
    middle = [entry for entry in log if entry.topic == TOPICS.config][-1].offset // 2
    answer = oracle.answer([whole_cut(log), Cut(record=(TOPICS.config, 0, middle))])
    assert not any(answer.unfollowed)
    profiles = list(PROFILES.values())
    for number, moment in enumerate((None, f"config@{middle}")):
        for release, state in zip(RELEASES, replayed(cluster, moment, profiles), strict=True):
            lines = answer.lines[number, release]
            assert len(lines) > RECORDS // 20
            assert digest(lines) == digest(lines_of(state)), (moment, release)

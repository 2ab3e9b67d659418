"""Engine without a JVM: an archive's state equals the service's state of the log."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.scenario.story import StoryStep, read_story
from replay.archive.manifest import StoredFile
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import FolderStore
from replay.engine import partition_reader
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.partition_reader import GROUP_ROWS, SMALL_ROWS, PartitionReader
from replay.engine.plans.read_plan import FileRows, PartitionPlan
from tests.conftest import PROVE, examples, sampled
from tests.laws.entries import logs, profiles, statuses
from tests.recorded_requests import EXACTLY_ONCE, HISTORIES, recorded_entries
from tests.replay.archive.archives import archive, capture, cluster_in, log_of, replayed, served
from tests.replay.fleet.fleets import CLUSTERS

pytestmark = pytest.mark.slow

STORIES = sorted(path.name.removesuffix(".story.jsonl") for path in HISTORIES.glob("*.story.jsonl"))

USUAL = [name for name in STORIES if name not in ("life-2.8", "life-3.4", "life-4.3")]
"""Stories of `make test`: all except `life` on 2.8, 3.4 and 4.3."""

EXAMPLES = examples(8, proved=1_500)
PHASES = [*Phase] if PROVE else [Phase.explicit, Phase.reuse, Phase.generate]
"""Phases of hypothesis: only `make prove` takes the time to find the smallest failing example."""

KIP = [Profile.of("kip")]

DAY_MS = 86_400_000


def observed(steps: list[StoryStep]) -> dict[str, list[Profile]]:
    """Moments at which a recorded story has workers' answers, with the releases that answered."""
    releases = {step.worker: step.release for step in steps if step.release is not None}
    releases_by_moment: dict[str, list[Profile]] = {}
    for step in steps:
        if step.kind == "observe":
            moment = vector(step)
            profile = Profile.of(releases[step.worker])
            if profile not in releases_by_moment.setdefault(moment, []):
                releases_by_moment[moment].append(profile)
    return releases_by_moment


def vector(step: StoryStep) -> str:
    """Vector of the ends to which the topics had been read after a step."""
    return msgspec.json.encode(step.positions).decode()


@pytest.mark.parametrize("name", sampled(STORIES, *USUAL))
def test_engine_and_service_agree_at_every_observed_point(name: str, tmp_path: Path) -> None:
    """Engine and service agree for each recorded release at each observed point.

    Derived files (snapshots, and winners: the rows of a segment that may still count) save reads of
    segments. `make test` allows them at every other point; `make prove` tests both ways at each.
    """
    entries = recorded_entries(name)
    log, cluster = log_of(entries), archive(tmp_path, entries, SegmentSizes(40, 16))
    exactly_once = name in EXACTLY_ONCE
    points = observed(read_story(HISTORIES / f"{name}.story.jsonl"))
    assert points
    for number, (moment, readers) in enumerate(points.items()):
        expected = served(log, moment, readers, exactly_once=exactly_once)
        for derived in (True, False) if PROVE else (number % 2 == 0,):
            assert (
                replayed(cluster, moment, readers, LocalOptions(exactly_once, derived)) == expected
            )


@pytest.mark.parametrize("name", sampled(STORIES, *USUAL))
def test_one_query_gives_the_state_of_every_release(name: str, tmp_path: Path) -> None:
    """One query gives the right state at the end for all profiles."""
    entries = recorded_entries(name)
    assert replayed(archive(tmp_path, entries), None, PROFILES) == served(
        log_of(entries), None, PROFILES
    )


@pytest.mark.parametrize("setting", ["offsets.storage.topic", "\\u006fffsets.storage\\u002etopic"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-be"])
def test_a_connectors_own_topic_is_found(setting: str, encoding: str, tmp_path: Path) -> None:
    """The engine finds a connector's own topic, however its setting is written."""
    config = f'{{"properties":{{"name":"a","{setting}":"own"}}}}'.encode(encoding)
    log = [
        Entry("connect-configs", 0, 0, 1, b"connector-a", config),
        Entry("own", 0, 0, 2, b'["a",{"p":1}]', b'{"o":1}'),
    ]
    for moment in (None, "2", "own@0"):
        (state,), (expected,) = (
            replayed(archive(tmp_path, log), moment, KIP),
            served(log_of(log), moment, KIP),
        )
        assert state == expected
        assert "own" in state.offsets
    not_captured_yet = archive(tmp_path / "configs", log[:1])
    assert LocalEngine(not_captured_yet).own_topics([1]) == ["own"]


@pytest.mark.parametrize("exactly_once", [True, False])
@pytest.mark.parametrize("is_aborted_first", [True, False])
def test_an_aborted_config_names_no_own_topic_with_exactly_once_support(
    tmp_path: Path, *, is_aborted_first: bool, exactly_once: bool
) -> None:
    """Readers with exactly-once support skip the aborted one of two configs, as a fold does."""
    values = [
        b'{"properties":{"name":"a","offsets.storage.topic":"first"}}',
        b'{"properties":{"name":"a","offsets.storage.topic":"second"}}',
    ]
    configs = [
        Entry(
            "connect-configs",
            0,
            offset,
            offset + 1,
            b"connector-a",
            value,
            aborted=is_aborted_first is (offset == 0),
        )
        for offset, value in enumerate(values)
    ]
    offsets = [Entry(own, 0, 0, 3, b'["a",{"p":1}]', b'{"o":1}') for own in ("first", "second")]
    log = [*configs, *offsets]
    expected_topic = "first" if exactly_once and not is_aborted_first else "second"
    for moment in (None, "3", "config@1"):
        (state,), (expected,) = (
            replayed(archive(tmp_path, log), moment, KIP, LocalOptions(exactly_once)),
            served(log_of(log), moment, KIP, exactly_once=exactly_once),
        )
        assert state == expected
        assert {*state.ends_by_topic} & {"first", "second"} == {expected_topic}
        assert (expected_topic in state.offsets) is (moment != "config@1")


@pytest.mark.parametrize("derived", [True, False])
def test_every_reader_sees_aborted_statuses(tmp_path: Path, derived: bool) -> None:
    """Statuses of aborted transactions count, also with exactly-once support."""
    value = b'{"state":"FAILED","trace":null,"worker_id":"w","generation":1}'
    key = b"status-connector-a"
    log = [Entry("connect-status", 0, 0, 1, key, value, aborted=True)]
    options = LocalOptions(exactly_once=True, derived=derived)
    (state,) = replayed(archive(tmp_path, log), None, KIP, options)
    assert [state] == served(log_of(log), None, KIP, exactly_once=True)
    assert [*state.status.connectors] == ["a"]


def spread(log: list[Entry]) -> list[Entry]:
    """Stretch a log over some days: each millisecond becomes a ninth of a day."""
    return [
        Entry(
            entry.topic,
            entry.partition,
            entry.offset,
            1_700_000_000_000 + (entry.timestamp - 1_000) * DAY_MS // 9,
            entry.key,
            entry.value,
            entry.headers,
            entry.aborted,
        )
        for entry in log
    ]


def moments(log: list[Entry]) -> list[str | None]:
    """The end of a log, each of its records, and each of its times."""
    positions = [f"{entry.topic}@{entry.partition}:{entry.offset}" for entry in log]
    return [None, *positions, *(str(entry.timestamp) for entry in log)]


@settings(max_examples=EXAMPLES, phases=PHASES)
@given(logs() | statuses(), st.lists(profiles, min_size=1, max_size=3), st.booleans(), st.data())
def test_engine_and_service_agree_about_random_logs(
    log: list[Entry], readers: list[Profile], exactly_once: bool, data: st.DataObject
) -> None:
    """Engine and service agree about archives captured in parts, with and without snapshots."""
    log = spread(log)
    moment = data.draw(st.sampled_from(moments(log)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=2)))
    if exactly_once:
        readers = [reader for reader in readers if reader.exactly_once_support] or [
            Profile.of("kip")
        ]
    with TemporaryDirectory() as folder:
        for end in (*cuts, len(log)):
            capture(Path(folder), log_of(log[:end]))
        cluster = cluster_in(Path(folder))
        expected = _or_refusal(
            partial(served, log_of(log), moment, readers, exactly_once=exactly_once)
        )
        for derived in (True, False):
            options = LocalOptions(exactly_once, derived)
            assert _or_refusal(partial(replayed, cluster, moment, readers, options)) == expected


def _or_refusal(states: Callable[[], list[ClusterState]]) -> list[ClusterState] | str:
    """States, or `unknown moment` if the moment is refused.

    The moment may be a record of an offsets topic that is not read, because no config names it.
    """
    try:
        return states()
    except UnknownMoment:
        return "unknown moment"


@settings(max_examples=EXAMPLES // 2, phases=PHASES)
@given(logs(), st.data())
def test_a_vector_is_a_prefix_of_each_partition(log: list[Entry], data: st.DataObject) -> None:
    """Service and archive agree about a vector of end offsets.

    The archive refuses an end offset of configs before its first archived config. It allows 0.
    """
    log = spread(log)
    ends: dict[str, list[int]] = {"connect-configs": [data.draw(st.integers(0, 60))]}
    for topic in ("connect-offsets", "connect-status"):
        if any(entry.topic == topic for entry in log):
            ends[topic] = data.draw(st.lists(st.integers(0, 40), max_size=1))
    moment = str(ends).replace("'", '"')
    with TemporaryDirectory() as folder:
        cluster = archive(Path(folder), log)
        begins = cluster.parts["connect-configs", 0].start
        if 0 < ends["connect-configs"][0] <= begins:
            with pytest.raises(UnknownMoment, match=f"begins with config@{begins}"):
                replayed(cluster, moment, KIP)
        else:
            assert replayed(cluster, moment, KIP) == served(log_of(log), moment, KIP)


def _part(topic: str, partition: int, rows: int, *, aborted: bool = False) -> PartitionPlan:
    piece = FileRows(StoredFile(f"{topic}-{partition}", 1, "", rows), 0, rows, "segment", aborted)
    return PartitionPlan(topic, partition, (piece,))


def test_small_offsets_partitions_form_groups(tmp_path: Path) -> None:
    """Small partitions of offsets form groups of limited size.

    Large ones, those with aborted rows that workers skip, and other topics stay alone.
    """
    config, small, own = _part("connect-configs", 0, 9), _part("connect-offsets", 0, 9), "own"
    limit, large = (_part("connect-offsets", 1, rows) for rows in (SMALL_ROWS, SMALL_ROWS + 1))
    hidden, status = _part(own, 1, 9, aborted=True), _part("connect-status", 0, 9)
    parts = [config, *[limit] * 7, large, small, _part(own, 0, 9), hidden, small, status, status]
    reader = PartitionReader(FolderStore(str(tmp_path)), Topics(), PROFILES)
    assert GROUP_ROWS // SMALL_ROWS == 6
    assert list(reader.groups(parts)) == [
        *([config], [limit] * 6, [limit], [large], [small, _part(own, 0, 9)]),
        *([hidden], [small], [status], [status]),
    ]


@pytest.mark.parametrize("name", sorted(CLUSTERS.values()))
def test_groups_change_no_state(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states are the same if each partition is reduced alone."""
    cluster = archive(tmp_path, recorded_entries(name))
    together = replayed(cluster, None, PROFILES, LocalOptions())
    monkeypatch.setattr(partition_reader, "GROUP_ROWS", 0)
    assert replayed(cluster, None, PROFILES, LocalOptions()) == together

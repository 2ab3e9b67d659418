"""Regressions: short logs on which Kafka's classes once differed from the fold."""

import pytest

from controlplane.core import views
from controlplane.core.codec.offsets import identity
from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind, Fold
from controlplane.core.java.json_codec import Undecodable, decode
from controlplane.core.records import SourcePartition
from controlplane.core.releases.profiles import Profile
from tests.core.logs import config, offsets, outcomes, read, status


def test_nothing_deferred_is_announced_as_nothing() -> None:
    """Up to 2.3.0 a commit announces all known tasks, or none if there never were any."""
    log = config(
        ("task-b-0", '{"properties":{}}'),
        ("commit-b", '{"tasks":1}'),
        ("commit-a", '{"tasks":0}'),
    )
    fold = Fold(Profile.of("2.3.0"), live=True)
    calls = [call for entry in log for call in fold.apply(entry).calls]
    assert [call.subject for call in calls] == [{("b", 0)}, frozenset()]


@pytest.mark.parametrize(
    ("release", "kind"), [("3.6.1", FateKind.IGNORED), ("3.6.2", FateKind.ACCEPTED)]
)
def test_an_offset_without_partition_is_no_news(release: str, kind: FateKind) -> None:
    """KAFKA-16392: `["c",null]` causes a warning in some releases only."""
    (entry,) = offsets(('["c",null]', "{}"))
    assert Fold(Profile.of(release)).apply(entry).kind is kind


@pytest.mark.parametrize("release", ["2.5", "3.9", "4.3"])
@pytest.mark.parametrize(
    ("key", "connector"),
    [
        ("status-topic-1:connecto\U0001f600b", "b"),
        ("status-topic-1:connector\U0001f600a", "\ude00a"),
        ("status-topic-1:connector-\U0001f600", "\U0001f600"),
        ("status-topic-\U0001f600:ZZZZZZZZZZa", "a"),
    ],
)
def test_topics_are_filed_under_the_connector_that_a_worker_files_them_under(
    key: str, connector: str, release: str
) -> None:
    """`readTopicStatus` skips eleven UTF-16 units, also where they cut a pair in half."""
    used = b'{"topic":{"name":"","connector":"","task":2,"discoverTimestamp":6}}'
    entry = Entry("connect-status", 0, 0, 0, key.encode(), used)
    fold = Fold(Profile.of(release))
    assert fold.apply(entry).kind is FateKind.ACCEPTED
    assert list(fold.snapshot().status.active_topics) == [connector]


def test_a_key_whose_separator_is_too_short_in_units_is_ignored() -> None:
    """A key is ignored if fewer than eleven UTF-16 units follow its colon."""
    entry = Entry("connect-status", 0, 0, 0, "status-topic-t:connecto\U0001f600".encode(), None)
    assert Fold(Profile.of("3.9")).apply(entry).kind is FateKind.IGNORED


def test_a_key_that_overflows_the_stack_is_not_stored() -> None:
    """The exception leaves `KafkaOffsetBackingStore` before the record is taken."""
    key = b"[" * 30_000 + b"]" * 30_000
    assert read(offsets((key, "{}")), "3.6").offsets["connect-offsets"].values == {}
    assert read(offsets((key, "{}")), "3.4").offsets["connect-offsets"].values == {key: b"{}"}


def test_a_number_too_long_counts_though_its_field_is_repeated() -> None:
    """Jackson refuses the number before a later field could replace it."""
    value = b'{"k":' + b"7" * 1001 + b',"k":1}'
    with pytest.raises(Undecodable):
        decode(value, Profile.of("3.7"))
    assert decode(value, Profile.of("3.6")) == {"k": 1}


def test_deep_partitions_are_distinguished() -> None:
    """A partition may be nested more deeply than Python recurses."""

    def nested(levels: int, innermost: object) -> SourcePartition:
        for _ in range(levels):
            innermost = [innermost]
        return SourcePartition("c", {"p": innermost})

    assert identity(nested(2_500, 1)) == identity(nested(2_500, 1))
    assert identity(nested(2_500, 1)) != identity(nested(2_500, 1.0))


def test_nested_partitions_have_no_answer() -> None:
    """`OffsetStorageReaderImpl` gives no answer for a nested partition, so the view omits it."""
    state = read(offsets(('["c",{"p":[1]}]', '{"pos":1}'), ('["c",{"p":1}]', '{"pos":2}')))
    assert [view.partition for view in views.source_offsets(state, "c")] == [{"p": 1}]


def test_zeros_of_both_signs_are_two_partitions() -> None:
    """`Double#equals` distinguishes them, and 3.7 to 4.0 still read `-0e99999999999` as -0.0."""
    negative, positive = (SourcePartition("c", {"p": zero}) for zero in (-0.0, 0.0))
    assert identity(negative) != identity(positive)


@pytest.mark.parametrize("release", ["2.3", "4.3"])
def test_a_nested_state_of_a_status_is_ignored(release: str) -> None:
    """A status is ignored if its state is a list, however deep."""
    values = (f'{{"state":{"[" * depth}{"]" * depth}}}' for depth in range(900, 1_010, 5))
    fates = outcomes(status(*(("status-connector-a", value) for value in values)), release)
    assert {fate.kind for fate in fates} == {FateKind.IGNORED}
    assert fates[0].reason == "state is not a string"

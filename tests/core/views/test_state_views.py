"""Views of states that no worker would write."""

import pytest

from controlplane.core import views
from controlplane.core.codec.config import decode_config
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.views.diff import diff
from controlplane.core.views.hazards import Danger, hazards, hazards_of_each
from controlplane.rest.endpoints.pure_requests import answer
from controlplane.rest.endpoints.reads import ReadInputs
from tests.core.logs import config, connector, offsets, read, records, status
from tests.operation_counts import operations


@pytest.mark.parametrize("release", ["2.5", "3.9", "kip"])
def test_a_huge_task_count_is_a_failure(release: str) -> None:
    """A foreign commit of 2**31 - 1 tasks is reported as a failure, and takes no memory."""
    log = config(connector("a"), ("task-a-0", '{"properties":{}}'), ("commit-a", '{"tasks":1}'))
    commit = log[2]
    huge = [
        *log,
        type(commit)(commit.topic, 0, 3, commit.timestamp + 1, commit.key, b'{"tasks":2147483647}'),
    ]
    state = read(huge, release)
    with pytest.raises(views.ReadFailed, match="more than a worker can list"):
        views.task_configs(state, "a")
    assert answer(ReadInputs(state), "/connectors/a/tasks").status == 500
    assert answer(ReadInputs(state), "/connectors/a").status == 200  # inconsistent: none is listed
    assert diff(state, state) == []
    assert Danger.READ_FAILS not in [hazard.danger for hazard in hazards(huge, Profile.of(release))]


@pytest.mark.parametrize("name", [b"\xff", "größe".encode(), b"\xed\xa0\x80"])
def test_odd_names_are_found_again(name: bytes) -> None:
    """Views accept a name that is no UTF-8, and never encode it."""
    log = config(
        (b"connector-" + name, '{"properties":{}}'),
        (b"commit-" + name, '{"tasks":-1}'),
        (b"connector-" + name, '{"properties":{"k":"v"}}'),
    )
    found_hazards = hazards(log, Profile.of("3.7.0"))
    assert [(hazard.danger, hazard.position.offset) for hazard in found_hazards] == [
        (Danger.READ_FAILS, 1)
    ]
    halves = [unfinished.kind for unfinished in views.half_done(read(log, "3.7.0"))]
    assert views.UnfinishedChangeKind.TASKS_OF_AN_OLDER_CONFIG in halves


def test_a_source_partition_with_a_lone_surrogate_can_change() -> None:
    """`diff` shows the change of its offset, although UTF-8 cannot encode the partition."""
    log = offsets((r'["a",{"p":"\ud800"}]', '{"o":1}'), (r'["a",{"p":"\ud800"}]', '{"o":2}'))
    changes = diff(read(log[:1], "kip", trace=True), read(log, "kip", trace=True))
    assert [(change.before, change.after, change.item) for change in changes] == [
        ({"o": 1}, {"o": 2}, r'{"p":"\uD800"}')
    ]


@pytest.mark.parametrize(
    ("release", "danger"), [("2.5.0", Danger.PARTITION_ORDER), ("2.5.1", Danger.STOPS_WORKER)]
)
def test_a_config_topic_of_two_partitions_is_a_hazard(release: str, danger: Danger) -> None:
    """Up to 2.5.0 the order is undefined; later releases refuse to start."""
    log = [*config(connector("a")), *records("connect-configs", connector("b"), partition=1)]
    assert [hazard.danger for hazard in hazards(log, Profile.of(release))] == [danger]


def test_a_status_that_its_own_partition_removes_is_no_hazard() -> None:
    """A later tombstone in its own partition removes it, in any order of the partitions."""
    running = '{"state":"RUNNING","trace":null,"worker_id":"w","generation":1}'
    removal = ("status-connector-a", None)
    elsewhere = status(removal, partition=0)
    shown = [*elsewhere, *status(("status-task-a-0", running), partition=1, start=1)]
    dangers = [hazard.danger for hazard in hazards(shown, Profile.of("3.9"))]
    assert dangers == [Danger.PARTITION_ORDER]
    assert not hazards([*shown, *status(removal, partition=1, start=2)], Profile.of("3.9"))


@pytest.mark.parametrize(
    ("value", "release", "is_reported"),
    [(b'{"tasks":01}', "3.5", True), (b'{"tasks":1}', "3.5", False), (b"[" * 5000, "3.9", False)],
)
def test_different_config_offsets_are_reported(
    value: bytes, release: str, *, is_reported: bool
) -> None:
    """The last record is read by some releases and not by others."""
    log = config(connector("a"), ("junk", value))
    dangers = {hazard.danger for hazard in hazards(log, Profile.of(release))}
    assert (Danger.OFFSETS_DISAGREE in dangers) is is_reported


@pytest.mark.slow
def test_a_disagreement_names_all_and_only_the_releases_that_disagree() -> None:
    """Some releases read an empty last value as a tombstone, and others cannot read it."""
    log = config(connector("a"), ("connector-b", ""))
    for release, end, other_end, members in (
        ("3.9", 2, 1, "0.9.0.0 to 0.11.0.3, 2.2.2, 2.3.1 to 2.6.0"),
        ("2.2.2", 1, 2, "1.0.0 to 2.2.1, 2.3.0, 2.6.1 to kip"),
    ):
        (hazard,) = hazards(log, Profile.of(release))
        assert hazard.danger is Danger.OFFSETS_DISAGREE
        text = f"config offset {end} on this worker, {other_end} on members of {members}:"
        assert hazard.reason.startswith(text)


def test_hazards_of_all_releases_cost_few_decodings() -> None:
    """Releases that read JSON alike share the work on an undecodable record."""
    unclosed = "[" * 300
    log = config(("connector-a", unclosed))
    decoding = operations(lambda: decode_config(b"connector-a", unclosed.encode(), PROFILES[0]))
    assert operations(lambda: hazards_of_each(log, PROFILES)) < 40 * decoding


def test_the_hazard_of_a_key_in_two_partitions_names_the_record_that_counts() -> None:
    """The last record in the one order counts, in whichever partition the key came first."""
    key = '["a",{"p":1}]'
    log = [
        *offsets((key, '{"o":1}')),
        *offsets((key, '{"o":2}'), partition=1),
        *offsets((key, '{"o":3}'), start=1),
    ]
    (hazard,) = hazards(log, Profile.of("3.9"))
    assert hazard.position == log[-1].position

"""Comparison of our fold with Kafka's own classes: equal logs give equal answers, per release.

The tests compare, for each record, its fate and the calls of the listener. At the end of the log
they compare everything in the stores, and the offsets that a worker would answer. Our fold answers
twice: record by record, and loaded in bulk.

Some logs are read in batches of several sizes. At start-up Kafka's own `KafkaBasedLog#poll` reads
them, and an exception may end the worker. Later `KafkaBasedLog.WorkThread` reads them: an exception
may lose the rest of a batch, or end the thread.

The harness has no consumer, so `Case.visible_entries` drops aborted records, as Kafka's consumers
do. The history `aborted-3.9` has a real consumer.

`SEED` draws other logs. `PROVE=1` draws new logs, 100,000 per release, for more releases. A
disagreement is shrunk, shown beside both answers, and stored as a scenario in `scenarios/oracle/`
(`disagreement_file.py`).
"""

import re
from collections.abc import Callable, Mapping
from itertools import islice, pairwise, takewhile

import msgspec
import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import FateKind
from controlplane.core.java import java_library
from controlplane.core.releases.profiles import KIP, PROFILES, Profile
from tests.conftest import SEED, sampled
from tests.oracle.case import Case
from tests.oracle.comparable_answers import UNREAD, ComparableAnswer, differences
from tests.oracle.comparison import LogDisagreement, disagreements, explained, shrunk
from tests.oracle.disagreement_file import keep
from tests.oracle.kafka import KafkaOracle
from tests.oracle.logs import MOST_RECORDS, case, cases
from tests.oracle.oracle_releases import ASKED, PROVED
from tests.oracle.our_answer import of_fold

LOGS = 150
FIRST = {"3.2.3": 530, "3.6.2": 330} if SEED == "1" else {}
"""Number of the first log for releases that differ from the release before them in few logs.

One of the logs from there on shows the difference, if `SEED` is the one of `make test`.
"""

LOGS_PROVED = 100_000

TESTED = ("2.8.2", "3.2.3", "3.4.1", "3.6.2", "3.9.1", "4.3.0")
"""Releases of `make test`: the newest, the most used ones, and those in `FIRST`."""


def _judge(release: str, count: int) -> None:
    """Fail with the smallest log on which Kafka's classes and our fold differ."""
    with KafkaOracle(release) as oracle:
        differing = disagreements(oracle, f"{SEED}/{release}", count, first=FIRST.get(release, 0))
        disagreement = next(differing, None)
    if disagreement is None:
        return
    smallest = shrunk(disagreement)
    pytest.fail(f"{explained(smallest)}\nkept as a scenario: {keep(smallest)}", pytrace=False)


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(ASKED, *TESTED))
def test_fold_is_kafkas(release: str) -> None:
    """For each release, 150 random logs give the same snapshot, fates and calls."""
    _judge(release, LOGS)


@pytest.mark.java
@pytest.mark.prove
@pytest.mark.parametrize("release", [*ASKED, *PROVED])
def test_fold_is_kafkas_proved(release: str) -> None:
    """A hundred thousand random logs give equal answers, for more releases."""
    _judge(release, LOGS_PROVED)


def test_every_profile_is_judged() -> None:
    """Each profile of a release belongs to one of the compared releases."""
    asked_profiles = {msgspec.structs.replace(Profile.of(release), release="") for release in ASKED}
    missing = [
        profile.release
        for profile in PROFILES
        if profile.release != KIP
        and msgspec.structs.replace(profile, release="") not in asked_profiles
    ]
    assert not missing


def test_profiles_of_proved_releases_are_known() -> None:
    """`make prove` adds no release with a profile that no asked release has."""
    asked_profiles = {msgspec.structs.replace(Profile.of(release), release="") for release in ASKED}
    proved = {msgspec.structs.replace(Profile.of(release), release="") for release in PROVED}
    assert proved <= asked_profiles


def test_logs_repeat() -> None:
    """The same seed gives the same log; another seed gives another."""
    assert case("7/3") == case("7/3")
    assert case("7/3") != case("7/4")


def _kinds(release: str) -> set[str]:
    """Every fate of a record that occurs in the logs of a release."""
    profile, kinds = Profile.of(release), set()
    for drawn in islice(cases(f"{SEED}/{release}"), 200):
        parts = of_fold(drawn, profile).items()
        fates = [value for name, value in parts if "record" in name and value != UNREAD]
        kinds |= {fate if isinstance(fate, str) else fate[0] for fate in fates}
    return kinds


def test_logs_hold_every_fate() -> None:
    """Records of every fate occur in the random logs."""
    assert _kinds("3.4.1") == {kind.value for kind in FateKind}


def test_logs_tell_units_from_code_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs reveal a fold that skips the separator of a topic status by code points."""
    profile = Profile.of("3.9")
    drawn = list(islice(cases(f"{SEED}/3.9.1"), LOGS))
    right = [of_fold(case, profile) for case in drawn]
    monkeypatch.setattr(java_library, "substring", lambda text, begin: text[begin:])
    assert any(
        of_fold(case, profile) != expected for case, expected in zip(drawn, right, strict=True)
    )


SITUATIONS: Mapping[str, Callable[[Case, ComparableAnswer], bool]] = {
    "death at start-up within batches": lambda case, common: bool(case.batch) and common["died"],
    "start-up survived within batches": lambda case, common: (
        bool(case.batch) and 0 < case.startup < len(case.entries) and not common["died"]
    ),
    "the rest of a batch is lost": lambda _, common: (
        not common["died"] and UNREAD in common.values()
    ),
    "batches of several sizes": lambda case, _: len(set(case.batch)) > 1,
    "an exact repetition": lambda case, _: (
        len({(entry.topic, entry.key, entry.value) for entry in case.entries}) < len(case.entries)
    ),
    "a tombstone of an earlier key": lambda case, _: any(
        later.value is None and earlier.value is not None and later.key == earlier.key
        for earlier, later in pairwise(case.entries)
    ),
    "a long log": lambda case, _: len(case.entries) > MOST_RECORDS,
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_logs_hold_every_situation(situation: str) -> None:
    """The random logs contain every situation."""
    profile, holds = Profile.of("3.4"), SITUATIONS[situation]
    drawn = islice(cases(f"{SEED}/3.4.1"), LOGS)
    assert any(holds(case, of_fold(case, profile)) for case in drawn)


UNSEEN = re.compile("release|own_|offsets_by_|tolerates_|exactly_once_")
"""Fields about reading that do not concern the three stores."""


def _store_behaviours(profile: Profile) -> list[object]:
    """Behaviours of the stores; `rest_type` and later ones are about answers and writing."""
    reading = takewhile("rest_type".__ne__, profile.__struct_fields__)
    return [getattr(profile, name) for name in reading if not UNSEEN.match(name)]


NEIGHBOURS = [
    pytest.param(older, newer, id=newer.release)
    for older, newer in pairwise(PROFILES[:-1])
    if _store_behaviours(older) != _store_behaviours(newer)
]


@pytest.mark.slow
@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_logs_tell_neighbours_apart(older: Profile, newer: Profile) -> None:
    """Each step from profile to profile shows in the logs of the newer one."""
    first, count = FIRST.get(newer.release, 0), LOGS if SEED == "1" else LOGS_PROVED
    drawn = islice(cases(f"{SEED}/{newer.release}"), first, first + count)
    assert any(differences(of_fold(case, older), of_fold(case, newer)) for case in drawn)


def test_disagreement_is_shown() -> None:
    """The message shows the log beside both answers."""
    entries = (
        Entry("connect-configs", 0, 4, 0, b"connector-a", b"{}"),
        Entry("connect-offsets", 0, 0, 0, b"\xff  k", None),
    )
    disagreement = LogDisagreement(
        "3.9.1", "s/1", Case(entries, 1), {"record 0": ("ignored", "accepted")}
    )
    assert explained(disagreement).splitlines()[1:] == [
        "  record 0 (at start)  config@4  connector-a  {}",
        r"  record 1 (live)  offsets@0  \xFF \x20k  ∅",
        "  record 0",
        "    Kafka  ignored",
        "    fold   accepted",
    ]

"""Kafka's own classes judge our fold: the same logs, the same answers, release by release.

Compared is, of each record: what became of it and which calls the listener got; and at the end of
the log all that the stores hold, and the offsets that a worker would answer with. Our fold answers
twice: record by record, and loaded in bulk. Some logs are read in batches by the thread that a
running worker has for it (`KafkaBasedLog.WorkThread`), which may lose the rest of a batch, or its
life. Of aborted transactions the stores see what Kafka's consumers let through: the harness has no
consumer, `Case.seen` does as they do (a real one is in the history `aborted-3.9`).

`SEED` draws other logs; `PROVE=1` draws fresh ones, fifty times as many, of more releases. A
disagreement is shrunk, shown beside both answers, and kept as a scenario in `scenarios/oracle/`
(`kept.py`).
"""

import re
from itertools import islice, pairwise, takewhile

import msgspec
import pytest

from controlplane.core.entry import Entry
from controlplane.core.evolve import Kind
from controlplane.core.profiles import KIP, PROFILES, Profile
from tests.conftest import SEED
from tests.oracle.case import Case
from tests.oracle.common import differences
from tests.oracle.compare import Disagreement, disagreements, explained, shrunk
from tests.oracle.kafka import Oracle
from tests.oracle.kept import keep
from tests.oracle.logs import case, cases
from tests.oracle.our_answer import of_fold
from tests.oracle.releases_asked import ASKED, PROVED

LOGS = 2_000
LOGS_PROVED = 100_000


def _judge(release: str, count: int) -> None:
    """Fail with the smallest log that Kafka's classes and our fold disagree about."""
    with Oracle(release) as oracle:
        first = next(disagreements(oracle, f"{SEED}/{release}", count), None)
    if first is None:
        return
    smallest = shrunk(first)
    pytest.fail(f"{explained(smallest)}\nkept as a scenario: {keep(smallest)}", pytrace=False)


@pytest.mark.java
@pytest.mark.parametrize("release", ASKED)
def test_fold_is_kafkas(release: str) -> None:
    """Two thousand random logs: the same snapshot, the same fates, the same calls."""
    _judge(release, LOGS)


@pytest.mark.java
@pytest.mark.prove
@pytest.mark.parametrize("release", [*ASKED, *PROVED])
def test_fold_is_kafkas_proved(release: str) -> None:
    """A hundred thousand of them, and more releases."""
    _judge(release, LOGS_PROVED)


def test_every_profile_is_judged() -> None:
    """Each profile that a release has is that of one of the releases asked."""
    asked = {msgspec.structs.replace(Profile.of(release), release="") for release in ASKED}
    missing = [
        profile.release
        for profile in PROFILES
        if profile.release != KIP and msgspec.structs.replace(profile, release="") not in asked
    ]
    assert not missing


def test_profiles_of_proved_releases_are_known() -> None:
    """No release is asked only under `make prove` whose profile nobody else has."""
    asked = {msgspec.structs.replace(Profile.of(release), release="") for release in ASKED}
    proved = {msgspec.structs.replace(Profile.of(release), release="") for release in PROVED}
    assert proved <= asked


def test_logs_repeat() -> None:
    """The same seed gives the same log; another seed gives another."""
    assert case("7/3") == case("7/3")
    assert case("7/3") != case("7/4")


def _kinds(release: str) -> set[str]:
    """Every fate of a record that occurs in the logs of a release."""
    profile, seen = Profile.of(release), set()
    for drawn in islice(cases(f"{SEED}/{release}"), 200):
        fates = [value for name, value in of_fold(drawn, profile).items() if "record" in name]
        seen |= {fate if isinstance(fate, str) else fate[0] for fate in fates}
    return seen


def test_logs_hold_every_fate() -> None:
    """The generator is no well-behaved writer: records of every fate occur."""
    assert _kinds("3.4.1") == {kind.value for kind in Kind}


UNSEEN = re.compile("release|own_|offsets_by_|tolerates_|exactly_once_")
"""Fields about reading that are not about what the three stores make of a record."""


def _seen(profile: Profile) -> list[object]:
    """What is about the stores: answering and writing come behind, beginning with `rest_type`."""
    reading = takewhile("rest_type".__ne__, profile.__struct_fields__)
    return [getattr(profile, name) for name in reading if not UNSEEN.match(name)]


NEIGHBOURS = [
    pytest.param(older, newer, id=newer.release)
    for older, newer in pairwise(PROFILES[:-1])
    if _seen(older) != _seen(newer)
]


@pytest.mark.parametrize(("older", "newer"), NEIGHBOURS)
def test_logs_tell_neighbours_apart(older: Profile, newer: Profile) -> None:
    """Each step from profile to profile shows in the logs by which the newer one is judged."""
    drawn = islice(cases(f"{SEED}/{newer.release}"), LOGS)
    assert any(differences(of_fold(one, older), of_fold(one, newer)) for one in drawn)


def test_disagreement_is_shown() -> None:
    """The log stands beside both answers."""
    entries = (
        Entry("connect-configs", 0, 4, 0, b"connector-a", b"{}"),
        Entry("connect-offsets", 0, 0, 0, b"\xff  k", None),
    )
    found = Disagreement("3.9.1", "s/1", Case(entries, 1), {"record 0": ("ignored", "accepted")})
    assert explained(found).splitlines()[1:] == [
        "  record 0 (at start)  config@4  connector-a  {}",
        r"  record 1 (live)  offsets@0  \xFF \x20k  ∅",
        "  record 0",
        "    Kafka  ignored",
        "    fold   accepted",
    ]

"""Law: merges and retentions change no answer about what is certain, at any offset."""

from pathlib import Path
from random import Random

import pytest
from msgspec import UNSET

from replay.archive.archived_cluster import open_cluster
from replay.archive.merges.merge import Merger
from replay.archive.merges.retention import PlanMaker
from replay.archive.merges.unnamed_files import remove_replaced
from replay.archive.readings.archived_readings import ArchivedReadings
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.archive.verification import verified
from replay.engine.plans.retention_plan import older_than
from tests.conftest import PROVE, sampled
from tests.replay.archive.merges import LARGER, earlier_merge
from tests.replay.certainty.certainty_answers import certainty_from_records, certainty_of
from tests.replay.certainty.lossy_archive import NAME, lossy_archive

pytestmark = pytest.mark.slow

SEEDS, PER_TEST = (300, 6) if PROVE else (3, 3)


class RandomMerges:
    """Merges an archive up to three times at random moments; `retains` also removes records."""

    def __init__(self, seed: int, *, retains: bool = False) -> None:
        self._random = Random(f"merges {seed}")
        self._retains = retains
        self._left = self._random.randint(0, 3)

    def __call__(self, store: ArchiveStore) -> None:
        """Merge the archive with a probability of 40 %; do nothing after the last merge."""
        if self._left and self._random.random() < 0.4:
            self._left -= 1
            self.merge(store)

    def merge(self, store: ArchiveStore) -> None:
        sizes = self._random.choice((SegmentSizes(10, 4), LARGER, SegmentSizes()))
        plan: PlanMaker | None = None
        if self._retains and self._random.random() < 0.7:
            plan = older_than(0, self._random.randint(1, 50))
        Merger(store, NAME, sizes, plan).run()
        remove_replaced(store, NAME, 0)


@pytest.mark.parametrize("is_losing", sampled((False, True), True))
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_merges_change_no_doubt(first: int, tmp_path: Path, *, is_losing: bool) -> None:
    """Up to four merges change no doubt, with holes, gaps, partial and late looks."""
    for seed in range(first, first + PER_TEST):
        plain, small = str(tmp_path / f"plain-{seed}"), str(tmp_path / f"small-{seed}")
        merges = RandomMerges(seed)
        before = lossy_archive(seed, plain, is_losing=is_losing).cluster
        after = lossy_archive(seed, small, merges, is_losing=is_losing).cluster
        expected = certainty_of(before)
        assert certainty_of(after) == expected
        merges.merge(after.store)
        merged = open_cluster(after.store, NAME)
        assert certainty_of(merged) == expected
        result = verified(merged)
        assert (result.flaws, result.leftovers, result.replaced) == ((), (), 0)


@pytest.mark.parametrize("is_losing", sampled((False, True), True))
@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_retentions_add_only_their_own_doubts(
    first: int, tmp_path: Path, *, is_losing: bool
) -> None:
    """Retentions add only their own doubts, because a removed record counts as archived."""
    for seed in range(first, first + PER_TEST):
        plain, thin = str(tmp_path / f"plain-{seed}"), str(tmp_path / f"thin-{seed}")
        merges = RandomMerges(seed, retains=True)
        before = lossy_archive(seed, plain, is_losing=is_losing).cluster
        after = lossy_archive(seed, thin, merges, is_losing=is_losing).cluster
        expected = certainty_from_records(before)
        assert certainty_from_records(after) == expected
        merges.merge(after.store)
        assert certainty_from_records(open_cluster(after.store, NAME)) == expected


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_merges_of_an_earlier_version_are_merged_again(first: int, tmp_path: Path) -> None:
    """The next merge moves the readings from an earlier version's manifest into their own file.

    A reading is a range of offsets that an append has read. No answer about certainty changes.
    """
    moved = 0
    for seed in range(first, first + PER_TEST):
        moments = Random(f"earlier merges {seed}")

        def upkeep(store: ArchiveStore, moments: Random = moments) -> None:
            if moments.random() < 0.4:
                earlier_merge(store, NAME)

        before = lossy_archive(seed, str(tmp_path / str(seed)), upkeep).cluster
        Merger(before.store, NAME).run()
        after = open_cluster(before.store, NAME)
        assert certainty_of(after) == certainty_of(before)
        is_earlier = before.chain.base is not UNSET
        moved += is_earlier and after.chain.manifests[0].readings is not UNSET
    assert moved > 1


def test_the_cases_occur(tmp_path: Path) -> None:
    """The random archives contain joined looks, late and partial readings, holes and gaps."""
    cases_seen = set()
    for seed in range(PER_TEST):
        merges = RandomMerges(seed)
        cluster = lossy_archive(seed, str(tmp_path / str(seed)), merges, is_losing=True).cluster
        merges.merge(cluster.store)
        merged = open_cluster(FolderStore(str(tmp_path / str(seed))), NAME)
        for place in merged.parts:
            readings = ArchivedReadings(merged.store, merged.chain).of(place)
            cases = (readings.joined, readings.late, ~readings.whole, ~readings.dense)
            cases_seen |= {
                case for case, rows in enumerate((*cases, readings.lost[1:])) if rows.any()
            }
    assert cases_seen == {*range(5)}

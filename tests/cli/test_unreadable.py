"""Unreadable records are found without a fold of all records in order."""

from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import pytest

from controlplane.cli.inspect.unreadable_summary import unreadable
from controlplane.core.entry import Batch, Entry, batch_of
from controlplane.core.fold import Fold
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from controlplane.logs.dumps import read_dump

HISTORIES = ("odd-records-3.9", "aborted-3.9", "life-4.3")
RELEASES = ("0.10.0.0", "2.8", "3.5.0", "3.9", "kip")


async def batches(entries: list[Entry], size: int) -> AsyncIterator[Batch]:
    """Entries as a log returns them: partition by partition, in pieces."""
    for _, part in groupby(entries, key=lambda entry: (entry.topic, entry.partition)):
        rest = list(part)
        for start in range(0, len(rest), size):
            yield batch_of(rest[start : start + size])


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", HISTORIES)
async def test_the_fold_in_order_finds_the_same(
    histories: Path, name: str, release: str, exactly_once: bool
) -> None:
    """Batches of one partition after the other give the unreadable records of the fold in order."""
    entries = read_dump(histories / f"{name}.log.jsonl").entries
    folds = [Fold(Profile.of(release), exactly_once=exactly_once) for _ in range(2)]
    folds[0].apply_all(in_order(entries))
    result = await unreadable(batches(entries, 7), folds[1])
    assert result.records == dict(folds[0].snapshot().unreadable)
    assert result.count == folds[0].unreadable_count

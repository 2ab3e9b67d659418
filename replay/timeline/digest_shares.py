"""Shares of a pass for digests: by connector, as a state's digest is a sum over connectors.

Each share reads all records, but decodes and folds only those of its connectors, for all releases.
A record changes the sum by its own connector only. So the changes of all shares, in the records'
order, add up to the digests of a single pass.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from controlplane.core.order import RankedEntry
from controlplane.core.releases.profiles import Profile
from controlplane.core.topics.key_owners import owner
from replay.engine.executors import Executor
from replay.timeline.config_digests import BYTES, NO_OFFSET, DigestChanges, RowHashes
from replay.timeline.intervals import MomentColumns
from replay.timeline.work_shares import TimelineJob, WorkShare

LIMB_BITS = 32
LIMB_MASK = (1 << LIMB_BITS) - 1
LIMBS = 8 * BYTES // LIMB_BITS
"""Number of 32-bit parts of a digest; their sums over a chunk fit into 64 bits."""

Limbs = npt.NDArray[np.uint64]
RecordOffsets = npt.NDArray[np.int64]


class DigestShare(NamedTuple):
    """Share of a job's connectors: all with `crc32(name) % share_count == number`."""

    job: TimelineJob
    number: int
    share_count: int

    @property
    def records(self) -> WorkShare:
        """Records of the config topic, for all releases."""
        return WorkShare(self.job, self.job.plan.topics.config, self.job.question.profiles)


class ShareKeys:
    """Finds the records that a share folds, by their keys."""

    def __init__(self, share: DigestShare) -> None:
        self._share = share
        self._topics = share.job.plan.topics
        self._numbers: dict[bytes | None, int] = {}

    def places(self, records: Iterable[RankedEntry]) -> list[int]:
        """Places of the records that this share folds."""
        numbers, share_number = self._numbers, self._share.number
        places = []
        for place, record in enumerate(records):
            key = record.entry.key
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = self._number(key)
            if number == share_number:
                places.append(place)
        return places

    def _number(self, key: bytes | None) -> int:
        """Number of the share; all keys of a connector have the same."""
        # Some releases do not know the key. The connector is the same for all that do.
        owners = (
            owner(self._topics.config, key, self._topics, profile)
            for profile in reversed(self._share.job.question.profiles)
        )
        name = next((name for name in owners if name is not None), "")
        return crc32(name.encode("utf-8", "surrogatepass")) % self._share.share_count


class DigestStep(NamedTuple):
    """Changes of the digests that one share found in a chunk."""

    records: int
    """Number of records in the chunk."""
    moments: MomentColumns
    """Moments of all visible records of the chunk; each share has the same ones."""
    places: Sequence[int]
    """Places, among the visible records, of those that the share has folded."""
    found: Sequence[tuple[list[Profile], DigestChanges]]


def digest_shares(jobs: Sequence[TimelineJob], by: Executor) -> list[list[DigestShare]]:
    """Shares of each job, as many as there are free slots."""
    count = max(1, by.slots // max(1, len(jobs)))
    return [[DigestShare(job, number, count) for number in range(count)] for job in jobs]


class DigestSums:
    """Running digests of a job's releases, from the changes of all shares."""

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self._profiles = profiles
        no_key = RowHashes().cell("session_key", "", -1, None).to_bytes(BYTES)
        self._totals = dict.fromkeys(_releases(profiles), _limbs(no_key)[0])
        """Sum of all hashes except the offset's, by release."""
        self._offsets = dict.fromkeys(_releases(profiles), NO_OFFSET)

    def add(self, steps: Sequence[DigestStep]) -> list[tuple[list[Profile], bytes]]:
        """Add the same step of all shares; return the digests after each record, concatenated.

        The releases of a group have been folded as one in every share.
        """
        hashes = _OffsetHashes()
        return [
            (profiles, self._digests(profiles, changes, steps, hashes))
            for profiles, changes in self._groups(steps)
        ]

    def _groups(
        self, steps: Sequence[DigestStep]
    ) -> list[tuple[list[Profile], list[DigestChanges]]]:
        changes_of = [
            {release: changes for group, changes in step.found for release in _releases(group)}
            for step in steps
        ]
        groups: dict[tuple[int, ...], tuple[list[Profile], list[DigestChanges]]] = {}
        for profile in self._profiles:
            changes = [of_release[profile.release] for of_release in changes_of]
            groups.setdefault(tuple(map(id, changes)), ([], changes))[0].append(profile)
        return [*groups.values()]

    def _digests(
        self,
        profiles: Sequence[Profile],
        changes: Sequence[DigestChanges],
        steps: Sequence[DigestStep],
        hashes: "_OffsetHashes",
    ) -> bytes:
        record_count = sum(len(step.places) for step in steps)
        if not record_count:
            return b""
        sums = np.zeros((record_count, LIMBS), np.uint64)
        offsets = np.zeros(record_count, np.int64)
        for step, of_share in zip(steps, changes, strict=True):
            sums[step.places] = _limbs(of_share.sums)
            offsets[step.places] = of_share.offsets
        first = profiles[0].release
        sums[0] += self._totals[first]
        np.cumsum(sums, axis=0, out=sums)
        offsets = _filled(offsets, self._offsets[first])
        total = _carried(sums[-1:])[0]
        for release in _releases(profiles):
            self._totals[release], self._offsets[release] = total, int(offsets[-1])
        return _carried(sums + hashes[offsets.tobytes()]).astype(">u4").tobytes()


class _OffsetHashes(dict[bytes, Limbs]):
    """Hashes of the offset after each record; cached, as most releases have the same."""

    def __missing__(self, offsets: bytes) -> Limbs:
        hashes = RowHashes()
        row_hashes = (
            hashes.cell("offset", "", offset, None).to_bytes(BYTES)
            for offset in np.frombuffer(offsets, np.int64).tolist()
        )
        limbs = self[offsets] = _limbs(b"".join(row_hashes))
        return limbs


def _releases(profiles: Iterable[Profile]) -> Iterator[str]:
    return (profile.release for profile in profiles)


def _limbs(numbers: bytes) -> Limbs:
    """Split concatenated numbers of 32 bytes into their limbs, one number per row."""
    return np.frombuffer(numbers, ">u4").reshape(-1, LIMBS).astype(np.uint64)


def _carried(sums: Limbs) -> Limbs:
    """Carry what exceeds a limb to the next higher one; the highest carry is dropped."""
    carried, carry = sums.copy(), np.zeros(len(sums), np.uint64)
    for at in reversed(range(LIMBS)):
        column = carried[:, at] + carry
        carry = column >> np.uint64(LIMB_BITS)
        carried[:, at] = column & np.uint64(LIMB_MASK)
    return carried


def _filled(offsets: RecordOffsets, before: int) -> RecordOffsets:
    """Replace `NO_OFFSET` by the offset before it."""
    has_offset = offsets != NO_OFFSET
    last_place = np.maximum.accumulate(np.where(has_offset, np.arange(len(offsets)), -1))
    return np.where(last_place < 0, before, offsets[last_place])

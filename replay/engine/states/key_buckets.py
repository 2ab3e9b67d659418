"""Buckets of offset keys: parts of an offsets topic that can be folded independently.

Two keys can affect each other only if they are spellings of one source partition. So all spellings
of a source partition lie in one bucket, in all topics of a cluster. Releases may parse a key
differently. A row is *disputed* if its bucket depends on the release: it goes to each of its
buckets.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa

from controlplane.core.codec.offsets import decode_partition, identity
from controlplane.core.entry import Batch
from controlplane.core.records import Invalid
from controlplane.core.releases.profile_groups import of_each
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, ConfigState, Topics
from controlplane.core.topics.source_partitions import OFFSETS_TOPIC
from replay.engine.states.order_marks import OffsetMarks, offset_marks, offset_rivals
from replay.engine.states.state_builder import FoldOptions, ReducedTopic, states
from replay.kernels.batches import batch


class BucketRows(NamedTuple):
    """Rows of one partition that belong to a bucket."""

    bucket: int
    disputed: bool
    """True if the bucket of these rows depends on the release."""
    table: pa.Table


class BucketPart(NamedTuple):
    """Rows of a bucket from one partition, or from a slice of it."""

    topic: str
    partition: int
    disputed: bool
    table: pa.Table


def bucket_of(key: bytes | None, profile: Profile, buckets: int) -> int:
    """Bucket of a raw key, equal for all keys that a release parses as one source partition."""
    subject = decode_partition(key, profile)
    if isinstance(subject, Invalid):
        return crc32(key or b"") % buckets
    connector, fields = identity(subject)
    code = crc32(connector.encode("utf-8", "surrogatepass"))
    for field in fields:
        code = crc32(_stable(field), code)
    return code % buckets


def _stable(field: object) -> bytes:
    """Bytes that are equal in every process for equal fields."""
    if isinstance(field, str):
        return field.encode("utf-8", "surrogatepass")
    return b"" if field is None else b"%d" % hash(field)  # hashes of numbers are not salted


def in_buckets(table: pa.Table, profiles: Sequence[Profile], buckets: int) -> Iterator[BucketRows]:
    """Divide rows by bucket, in their order."""
    keys = table.column("key").to_pylist()

    def of_keys(profile: Profile) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.array([bucket_of(key, profile, buckets) for key in keys], np.int64)

    # Releases that agree share one array (`of_each`), so each array is compared once.
    numbers = np.stack(list({id(of_key): of_key for of_key in of_each(profiles, of_keys)}.values()))
    disputed = (numbers != numbers[0]).any(axis=0)
    for bucket in range(buckets):
        inside = (numbers == bucket).any(axis=0)
        for is_disputed in (False, True):
            rows = np.flatnonzero(inside & (disputed == is_disputed))
            if len(rows):
                yield BucketRows(bucket, is_disputed, table.take(rows))


class BucketFold(msgspec.Struct, frozen=True):
    """Fold of the buckets of one cluster."""

    topics: Topics
    profiles: tuple[Profile, ...]
    exactly_once: bool
    buckets: int
    own_topics: dict[str, dict[str, str]]
    """Dedicated offsets topic by release and connector, as the configs name them."""

    def states(self, bucket: int, parts: Sequence[BucketPart]) -> list[ClusterState]:
        """Return a state for each release, with the offsets of one bucket only.

        In these states, the config of a connector has one setting only: the name of its dedicated
        offsets topic. `parts` are ordered by slice within each partition.
        """
        if any(part.disputed for part in parts):
            folded = [
                self._states([profile], self._of(parts, bucket, profile))[0]
                for profile in self.profiles
            ]
        else:
            folded = self._states(self.profiles, parts)
        return [msgspec.structs.replace(state, config=self._config(state)) for state in folded]

    def order_marks(
        self, bucket: int, parts: Sequence[BucketPart]
    ) -> dict[str, dict[str, OffsetMarks]]:
        """Offsets of one bucket that depend on the order, by release and connector."""
        rivals = offset_rivals([(part, part.table) for part in parts])

        def of_release(profile: Profile) -> dict[str, OffsetMarks]:
            buckets = (bucket_of(of_key.key, profile, self.buckets) for of_key in rivals)
            own = (of_key for of_key, at in zip(rivals, buckets, strict=True) if at == bucket)
            return offset_marks(own, profile, self.topics)

        return {profile.release: of_release(profile) for profile in self.profiles}

    def _states(
        self, profiles: Sequence[Profile], parts: Sequence[BucketPart]
    ) -> list[ClusterState]:
        batches: dict[str, list[Batch]] = {}
        for (topic, partition), table in _by_partition(parts).items():
            if table.num_rows:
                batches.setdefault(topic, []).append(batch(topic, partition, table))
        reduced = [
            ReducedTopic(topic, rows, partial(list, rows)) for topic, rows in batches.items()
        ]
        return states(FoldOptions(self.topics, profiles, {}, self.exactly_once), reduced)

    def _of(self, parts: Sequence[BucketPart], bucket: int, profile: Profile) -> list[BucketPart]:
        """Parts without the rows that belong to another bucket for a release."""
        return [
            part._replace(table=self._own(part.table, bucket, profile)) if part.disputed else part
            for part in parts
        ]

    def _own(self, table: pa.Table, bucket: int, profile: Profile) -> pa.Table:
        keys = table.column("key").to_pylist()
        return table.filter(
            pa.array([bucket_of(key, profile, self.buckets) == bucket for key in keys])
        )

    def _config(self, state: ClusterState) -> ConfigState:
        own = self.own_topics.get(state.profile.release, {})
        return ConfigState(connectors={name: {OFFSETS_TOPIC: topic} for name, topic in own.items()})


def _by_partition(parts: Sequence[BucketPart]) -> dict[tuple[str, int], pa.Table]:
    """Rows of each partition, by offset."""
    tables: dict[tuple[str, int], list[pa.Table]] = {}
    for part in parts:
        tables.setdefault((part.topic, part.partition), []).append(part.table)
    return {
        place: pa.concat_tables(rows).sort_by("offset") if len(rows) > 1 else rows[0]
        for place, rows in tables.items()
    }

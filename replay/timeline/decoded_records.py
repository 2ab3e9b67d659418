"""Records decoded once for all releases that agree on them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controlplane.core.codec.config import decode_config
from controlplane.core.entry import Entry
from controlplane.core.fold.config import ConfigFold
from controlplane.core.order import RankedEntry
from controlplane.core.records import ConfigRecord, Invalid
from controlplane.core.releases.profile_groups import Disagreement, as_one
from controlplane.core.releases.profiles import Profile


class TimedRecord(NamedTuple):
    """A record, its time in the one order, and its common decoding."""

    time_ms: int
    entry: Entry
    record: ConfigRecord | Invalid | None
    """For the config topic only. None if releases disagree, so that each must decode it."""

    def fold(self, fold: ConfigFold) -> ConfigRecord | Invalid:
        """Apply the record to a worker's fold; return its decoding."""
        record = self.record
        if record is None:
            record = decode_config(self.entry.key, self.entry.value, fold.profile)
        fold.take(self.entry, record)
        return record


def decoded(
    records: Iterable[RankedEntry], profiles: Sequence[Profile], config: str
) -> list[TimedRecord]:
    """Decode records; `config` is the name of the config topic."""
    everyone = as_one(profiles)
    return [
        TimedRecord(
            record.time_ms,
            record.entry,
            _common_decoding(record.entry, everyone) if record.topic == config else None,
        )
        for record in records
    ]


def _common_decoding(entry: Entry, profile: Profile) -> ConfigRecord | Invalid | None:
    try:
        return decode_config(entry.key, entry.value, profile)
    except Disagreement:
        return None

"""Records, read once for all releases that agree in what they see in them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from controlplane.core.codec.config import decode_config
from controlplane.core.each_profile import Disagreement, as_one
from controlplane.core.entry import Entry
from controlplane.core.evolve.config import ConfigFold
from controlplane.core.order import Placed
from controlplane.core.profiles import Profile
from controlplane.core.records import ConfigRecord, Invalid


class Decoded(NamedTuple):
    """A record, its time in the one order, and what all see in it."""

    time_ms: int
    entry: Entry
    record: ConfigRecord | Invalid | None
    """Of the config topic only. None: they do not agree, and each has to look for itself."""

    def fold(self, fold: ConfigFold) -> ConfigRecord | Invalid:
        """Let a worker read it; what it has seen in it."""
        record = self.record
        if record is None:
            record = decode_config(self.entry.key, self.entry.value, fold.profile)
        fold.take(self.entry, record)
        return record


def decoded(records: Iterable[Placed], profiles: Sequence[Profile], config: str) -> list[Decoded]:
    """Records of the topic named `config`, or of another one."""
    everyone = as_one(profiles)
    return [
        Decoded(one.time_ms, one.entry, _seen(one.entry, everyone) if one.topic == config else None)
        for one in records
    ]


def _seen(entry: Entry, profile: Profile) -> ConfigRecord | Invalid | None:
    try:
        return decode_config(entry.key, entry.value, profile)
    except Disagreement:
        return None

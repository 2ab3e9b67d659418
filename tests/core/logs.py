"""Small logs of a foreign writer: `config(("connector-a", '{"properties":{}}'))`."""

import json
from collections.abc import Iterable
from typing import Any

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold, RecordFate
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState

Bytes = str | bytes | None
Pair = tuple[Bytes, Bytes]
"""Key and value of a record; text stands for its UTF-8."""

KeyValue = tuple[bytes | None, bytes | None]
"""Key and value of a record."""

START_MS = 1_795_000_000_000


def raw(text: Bytes) -> bytes | None:
    """Text as UTF-8; bytes and None stay as they are."""
    return text.encode() if isinstance(text, str) else text


def records(topic: str, *pairs: Pair, partition: int = 0, start: int = 0) -> list[Entry]:
    """Entries of one partition, one second apart, from log offset `start` on."""
    return [
        Entry(topic, partition, start + i, START_MS + 1000 * (start + i), raw(key), raw(value))
        for i, (key, value) in enumerate(pairs)
    ]


def config(*pairs: Pair) -> list[Entry]:
    """Return entries of the config topic from keys and values."""
    return records("connect-configs", *pairs)


def status(*pairs: Pair, partition: int = 0, start: int = 0) -> list[Entry]:
    """Entries of one partition of the status topic."""
    return records("connect-status", *pairs, partition=partition, start=start)


def offsets(*pairs: Pair, partition: int = 0, start: int = 0) -> list[Entry]:
    """Entries of one partition of the worker's offsets topic."""
    return records("connect-offsets", *pairs, partition=partition, start=start)


def read(entries: Iterable[Entry], release: str = "3.9", **settings: Any) -> ClusterState:
    """State of a worker of a release after these entries, in this order."""
    fold = Fold(Profile.of(release), **settings)
    fold.apply_all(entries)
    return fold.snapshot()


def outcomes(
    entries: Iterable[Entry], release: str = "3.9", *, live: bool = False
) -> list[RecordFate]:
    """Apply entries to a fold and return the fate of each."""
    fold = Fold(Profile.of(release), live=live)
    return [fold.apply(entry) for entry in entries]


def connector(name: str, **properties: Any) -> Pair:
    """A record of a connector config."""
    return f"connector-{name}", json.dumps({"properties": properties})


def tasks(name: str, count: int) -> list[Pair]:
    """Return the records of a complete task set: configs and commit."""
    configs = [(f"task-{name}-{n}", f'{{"properties":{{"n":"{n}"}}}}') for n in range(count)]
    return [*configs, (f"commit-{name}", f'{{"tasks":{count}}}')]


def report(state: str, generation: int = 1, worker: str = "w:8083") -> str:
    """Return the value of a status record."""
    shown = {"state": state, "trace": None, "worker_id": worker, "generation": generation}
    return json.dumps(shown)

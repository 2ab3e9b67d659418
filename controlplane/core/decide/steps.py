"""Steps of plans: their names, which are the crash points, and the drafts of records they write."""

import re
from collections.abc import Iterable, Mapping

from controlplane.core.codec import encode_config, encode_status
from controlplane.core.context import Context
from controlplane.core.plan import Draft, Step
from controlplane.core.records import ConfigRecord, StatusRecord
from controlplane.core.state import ClusterState

STEPS = (
    "config",
    "state",
    "tasks",
    "task-N",
    "commit",
    "create",
    "fence",
    "count",
    "wipe",
    "wipe-copy",
    "write",
    "write-copy",
    "undo-write",
    "undo-write-copy",
    "restart",
    "topics",
    "topic-N",
    "level",
)
"""All names; `N` is a number from 0. An undo puts the word of its command in front."""

PARTS = ("stop", "pause", "resume", "create", "put", "delete", "offsets")
"""Words of the commands in an undo: `put-config`, `offsets-write`."""

_STEP = re.compile(
    rf"(?:(?:{'|'.join(PARTS)})-)?(?:{'|'.join(STEPS)})".replace("-N", r"-(?:0|[1-9][0-9]*)"),
    re.ASCII,
)


def is_step(name: str) -> bool:
    """True if some plan may have a step of this name."""
    return _STEP.fullmatch(name) is not None


def config_draft(state: ClusterState, record: ConfigRecord, context: Context) -> Draft:
    """Draft of a config record, to the byte as a worker of this profile writes it."""
    key, value = encode_config(record, context.profile)
    return Draft(state.topics.config, key, value)


def status_draft(state: ClusterState, record: StatusRecord, context: Context) -> Draft:
    """Draft of a status record, to the byte as a worker of this profile writes it."""
    key, value = encode_status(record, context.profile)
    return Draft(state.topics.status, key, value)


def config_step(
    state: ClusterState, name: str, records: Iterable[ConfigRecord], context: Context
) -> Step:
    """Step that writes one atomic batch to the config topic and reads it back."""
    drafts = [config_draft(state, record, context) for record in records]
    return Step(name, tuple(drafts), read_back=(state.topics.config,))


def privileged(
    state: ClusterState, records: Mapping[str, ConfigRecord], commit_point: str, context: Context
) -> tuple[Step, ...]:
    """Steps for records that only a leader writes, named by the keys of `records` (KIP-618).

    With exactly-once support, and always under `kip`, the records are one transaction: one step,
    named after the commit point. Otherwise each record is a send of its own, and a crash may
    separate them; they are read back together. Kafka: `KafkaConfigBackingStore#sendPrivileged`.
    """
    if not records:
        return ()
    if context.profile.writes_atomically or state.exactly_once:
        return (config_step(state, commit_point, records.values(), context),)
    *first, last = records.items()
    sends = (Step(name, (config_draft(state, record, context),)) for name, record in first)
    return (*sends, config_step(state, last[0], [last[1]], context))

"""Steps of plans: their names and the drafts of their records.

A crash point (`core.plan`) has the name of the step before it.
"""

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
"""All names; `N` is a number from 0. In an undo, a word of `PARTS` and `-` come first."""

PARTS = ("stop", "pause", "resume", "create", "put", "delete", "offsets")
"""Words for the commands of an undo, as in `put-config` and `offsets-write`."""

_STEP_NAME = re.compile(
    rf"(?:(?:{'|'.join(PARTS)})-)?(?:{'|'.join(STEPS)})".replace("-N", r"-(?:0|[1-9][0-9]*)"),
    re.ASCII,
)


def is_step(name: str) -> bool:
    """True if some plan may have a step of this name."""
    return _STEP_NAME.fullmatch(name) is not None


def config_draft(state: ClusterState, record: ConfigRecord, context: Context) -> Draft:
    """Draft of a config record, with the bytes that a worker of this profile writes."""
    key, value = encode_config(record, context.profile)
    return Draft(state.topics.config, key, value)


def status_draft(state: ClusterState, record: StatusRecord, context: Context) -> Draft:
    """Draft of a status record, with the bytes that a worker of this profile writes."""
    key, value = encode_status(record, context.profile)
    return Draft(state.topics.status, key, value)


def config_step(
    state: ClusterState, name: str, records: Iterable[ConfigRecord], context: Context
) -> Step:
    """Step that writes one atomic batch to the config topic and reads it back."""
    drafts = [config_draft(state, record, context) for record in records]
    return Step(name, tuple(drafts), read_back=(state.topics.config,))


def privileged_steps(
    state: ClusterState, records: Mapping[str, ConfigRecord], commit_point: str, context: Context
) -> tuple[Step, ...]:
    """Steps for records that only a leader writes, named by the keys of `records` (KIP-618).

    With exactly-once support, and always under `kip`, the records are one transaction: one step,
    named after the commit point. Otherwise each record is a send of its own, and a crash may
    separate them. The last step reads them all back.
    Kafka: `KafkaConfigBackingStore#sendPrivileged`.
    """
    if not records:
        return ()
    if context.profile.writes_atomically or state.exactly_once:
        return (config_step(state, commit_point, records.values(), context),)
    *first, last = records.items()
    sends = (Step(name, (config_draft(state, record, context),)) for name, record in first)
    return (*sends, config_step(state, last[0], [last[1]], context))

"""Drafts of records for Connect's topics, and the steps that write them."""

from collections.abc import Iterable, Mapping

from controlplane.core.codec import encode_config, encode_status
from controlplane.core.context import Context
from controlplane.core.plan import Draft, Step
from controlplane.core.records import ConfigRecord, StatusRecord
from controlplane.core.state import ClusterState


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
    drafts = tuple(config_draft(state, record, context) for record in records)
    return Step(name, drafts, read_back=(state.topics.config,))


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

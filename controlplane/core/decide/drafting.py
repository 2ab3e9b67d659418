"""Records of Connect's topics as drafts, and the steps that a profile's writer makes of them."""

from collections.abc import Iterable, Iterator

from controlplane.core.codec import encode_config
from controlplane.core.context import Context
from controlplane.core.plan import Draft, Step
from controlplane.core.records import ConfigRecord
from controlplane.core.state import ClusterState


def config_draft(state: ClusterState, record: ConfigRecord, context: Context) -> Draft:
    """A record of the config topic, to the byte as a worker of this profile writes it."""
    key, value = encode_config(record, context.profile)
    return Draft(state.topics.config, key, value)


def config_step(
    state: ClusterState, name: str, records: Iterable[ConfigRecord], context: Context
) -> Step:
    """One atomic batch for the config topic, read back before the plan goes on."""
    drafts = tuple(config_draft(state, record, context) for record in records)
    return Step(name, drafts, barrier=(state.topics.config,))


def privileged(
    state: ClusterState, named: Iterable[tuple[str, ConfigRecord]], context: Context
) -> Iterator[Step]:
    """Records that only a leader writes (`KafkaConfigBackingStore#sendPrivileged`).

    With exactly-once support, and always under our own profile, they are one transaction, named
    after the last of them; without it each is a send of its own, and a crash may part them.
    """
    named = list(named)
    if context.profile.writes_atomically or state.exactly_once:
        yield config_step(state, named[-1][0], [record for _, record in named], context)
        return
    for name, record in named:
        yield config_step(state, name, [record], context)

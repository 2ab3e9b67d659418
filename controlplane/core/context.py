"""Inputs of a decision besides the state: settings, plugins, answers to its questions."""

import msgspec

from controlplane.core.plan import GroupOffsets, HookOutcome
from controlplane.core.plugins import UNCHECKED, Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import OffsetState


class DecisionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a worker that decisions depend on, named as in its properties file."""

    group_id: str = "connect-cluster"
    consumer_group_id: str | None = None
    """`consumer.group.id`: group of all sinks without an override."""
    bootstrap_servers: str = ""
    """`bootstrap.servers` of the worker; a connector's own offsets topic may be elsewhere."""
    producer_bootstrap_servers: str = ""
    """`producer.bootstrap.servers`: brokers of all producers without an override."""
    topic_tracking_enable: bool = True
    topic_tracking_allow_reset: bool = True
    override_policy: str | None = None
    """`connector.client.config.override.policy`: "All", "None" or "Principal". Python's None stands
    for the release's default."""
    exactly_once_source: bool = False
    """True if `exactly.once.source.support` is enabled."""
    key_converter: str | None = None
    value_converter: str | None = None
    header_converter: str = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    config_providers: tuple[str, ...] = ()
    """Names in `config.providers`. A value that a provider supplies is unknown here; it counts as
    valid."""

    def is_provided(self, value: str) -> bool:
        """True if a config value refers to a provider: `${provider:path:key}` (KIP-297)."""
        return any("}" in value.partition(f"${{{name}:")[2] for name in self.config_providers)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of `decide`. `profile` is the release whose records are written."""

    profile: Profile
    worker: DecisionSettings = DecisionSettings()
    plugins: Plugins = UNCHECKED
    hooks: tuple[HookOutcome, ...] = ()
    """Answers of the `alterOffsets` hook, one for each `AskHook` so far, in order."""
    calls_pure_hooks: bool = False
    """True: `decide` itself calls a hook that only computes, and asks for the others."""
    group: GroupOffsets | None = None
    """Committed offsets of a sink's consumer group, once `decide` has asked for them."""
    remote: OffsetState | None = None
    """Offsets of a source on the cluster of its producer, once `decide` has asked for them."""

"""What a decision depends on beside the state: the settings, the plugins, answers from outside."""

import msgspec

from controlplane.core.plan import GroupOffsets, HookOutcome
from controlplane.core.plugins import UNCHECKED, Plugins
from controlplane.core.profiles import Profile


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's settings as far as a decision needs them; the names are those of its file."""

    group_id: str = "connect-cluster"
    consumer_group_id: str | None = None
    """`consumer.group.id`: the group of every sink that has no override."""
    bootstrap_servers: str = ""
    """As in the file; a connector's own offsets topic may lie on another cluster."""
    topic_tracking_enable: bool = True
    topic_tracking_allow_reset: bool = True
    override_policy: str | None = None
    """`connector.client.config.override.policy`: All, None or Principal; not set: the release's."""
    exactly_once_source: bool = False
    """`exactly.once.source.support` is enabled."""
    key_converter: str | None = None
    value_converter: str | None = None
    header_converter: str = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    config_providers: tuple[str, ...] = ()
    """Names of `config.providers`: what they fill in is not known here, and believed."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Who decides, and what he has been told. The profile is the one that is *written* as."""

    profile: Profile
    worker: Worker = Worker()
    plugins: Plugins = UNCHECKED
    hooks: tuple[HookOutcome, ...] = ()
    """What the `alterOffsets` hook answered, one for each time `decide` asked for it."""
    group: GroupOffsets | None = None
    """What a sink's consumer group has committed, once `decide` has asked for it."""

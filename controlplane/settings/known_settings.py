"""Unsupported keys of a worker's file: those that matter to Java only, and misspelt ones.

The keys are those of `DistributedConfig` of every release; a test compares them with Kafka's own
classes.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

from controlplane.settings.sources import SourcedValue, ValueSource

_UNUSED = {
    "records are converted where connectors run": """
        key.converter.plugin.version value.converter.plugin.version
        header.converter.plugin.version
        internal.key.converter internal.value.converter""",
    "no tasks run here": "topic.creation.enable",
    "connector classes are named by a catalogue, plugins.catalogue": "plugin.discovery",
    "topics are made by whoever runs the brokers": """
        config.storage.replication.factor offset.storage.replication.factor
        status.storage.replication.factor""",
    "who is in the group is a matter of Java workers": """
        session.timeout.ms rebalance.timeout.ms heartbeat.interval.ms connect.protocol
        scheduled.rebalance.max.delay.ms worker.unsync.backoff.ms
        inter.worker.key.generation.algorithm inter.worker.key.size
        inter.worker.signature.algorithm inter.worker.verification.algorithms""",
    "only the policy Allowlist looks at it": "connector.client.config.override.allowlist",
    "the interface has no such part here": "rest.extension.classes",
    "there are no metrics of Java's here": """
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        auto.include.jmx.reporter""",
    "how we connect is told by `reader.` settings": """
        client.dns.lookup client.id connections.max.idle.ms metadata.max.age.ms
        metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy receive.buffer.bytes
        reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
        retry.backoff.ms send.buffer.bytes socket.connection.setup.timeout.max.ms
        socket.connection.setup.timeout.ms""",
    "TLS is Python's here": """
        ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class
        ssl.keymanager.algorithm ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm""",
    "logins here are PLAIN or SCRAM": """
        sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms""",
    "only a standalone worker looks at it": "offset.storage.file.filename",
}
"""Keys without effect here, by the reason."""

_FAMILIES = {
    "key.converter.": "records are converted where connectors run",
    "value.converter.": "records are converted where connectors run",
    "header.converter.": "records are converted where connectors run",
    "internal.key.converter.": "records are converted where connectors run",
    "internal.value.converter.": "records are converted where connectors run",
    "admin.listeners.https.": "TLS is Python's here",
    "listeners.https.": "TLS is Python's here",
    "producer.": "it is for the clients of connectors",
    "consumer.": "it is for the clients of connectors",
    "admin.": "it is for the clients of connectors",
    "metrics.context.": "there are no metrics of Java's here",
    "sasl.kerberos.": "logins here are PLAIN or SCRAM",
    "sasl.oauthbearer.": "logins here are PLAIN or SCRAM",
}
"""Prefixes of keys with arbitrary endings."""

_OF_TOPICS = """
    cleanup.policy compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
    index.interval.bytes local.retention.bytes local.retention.ms max.compaction.lag.ms
    max.message.bytes message.downconversion.enable message.format.version
    message.timestamp.after.max.ms message.timestamp.before.max.ms
    message.timestamp.difference.max.ms message.timestamp.type min.cleanable.dirty.ratio
    min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable
    remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms segment.bytes
    segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable"""
"""Settings of topics (`TopicConfig`); a worker's file may have them for its own (KIP-605)."""

_STORES = ("config.storage.", "offset.storage.", "status.storage.")

UNUSED = {key: why for why, keys in _UNUSED.items() for key in keys.split()} | {
    store + key: "topics are made by whoever runs the brokers"
    for store in _STORES
    for key in _OF_TOPICS.split()
}
"""Reason why each of these keys has no effect here."""

ALIKE = 0.8
"""Minimum similarity (`difflib`) to suggest a known key: one letter missing or too many, two
swapped, a word in the wrong number."""


GUESSES = 100
"""Maximum keys with suggestions, at some milliseconds each: a wrong file has thousands of keys."""


class Unknown(msgspec.Struct, frozen=True):
    """An unknown key, with the key that was probably meant."""

    key: str
    source: ValueSource
    meant: str | None

    def __str__(self) -> str:
        guess = f": did you mean {self.meant}?" if self.meant else ""
        return f"{self.source}: {self.key} is no setting of a worker{guess}"


COUNTING = "config.providers."
"""Prefix of supported keys with arbitrary endings: settings of providers."""


def unused(key: str) -> str | None:
    """Return the reason why a key of Kafka's has no effect here; None: it is no key of Kafka's."""
    families = (why for family, why in _FAMILIES.items() if key.startswith(family))
    return UNUSED.get(key) or next(families, None)


def unknown(told: Mapping[str, SourcedValue], counting: Iterable[str]) -> list[Unknown]:
    """Return the keys that are neither Kafka's nor in `counting`.

    In the environment only misspelt keys are reported: other programs use `CONNECT_`, too.
    """
    counts = set(counting)
    every = sorted(counts | UNUSED.keys())
    found: list[Unknown] = []
    for key, (_, source) in told.items():
        if key in counts or key.startswith(COUNTING) or unused(key):
            continue
        close = get_close_matches(key, every, n=1, cutoff=ALIKE) if len(found) < GUESSES else []
        meant = next(iter(close), None)
        if meant or source.kind != "environment":
            found.append(Unknown(key, source, meant))
    return found

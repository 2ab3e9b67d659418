"""Keys of a worker's file that no table has: unused keys of Kafka, and misspelt keys.

Most unused keys are for Java workers only, and have no effect here. Some have an effect only where
brokers are used; their reasons say so.

The keys are those of `DistributedConfig` in all releases; a test compares them with Kafka's
classes.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

from controlplane.settings.sources import SourcedValue, ValueSource

_CONVERTED_ELSEWHERE = "records are converted where connectors run"
_ONLY_ON_KAFKA = "only `serve --own` uses it, to create topics on brokers"
_LOGINS = "logins here are PLAIN, SCRAM, or OAUTHBEARER with a token in a file"
_NO_JAVA_METRICS = "there are no Java metrics here"
_OF_CONNECTOR_CLIENTS = "it configures the clients of connectors that run on Kafka"
_PYTHON_TLS = "TLS is Python's here"

_UNUSED = {
    _CONVERTED_ELSEWHERE: """
        key.converter.plugin.version value.converter.plugin.version
        header.converter.plugin.version
        internal.key.converter internal.value.converter""",
    "plugins.catalogue names the connector classes": "plugin.discovery",
    "only Java workers form a group": """
        session.timeout.ms rebalance.timeout.ms heartbeat.interval.ms connect.protocol
        scheduled.rebalance.max.delay.ms worker.unsync.backoff.ms
        inter.worker.key.generation.algorithm inter.worker.key.size
        inter.worker.signature.algorithm inter.worker.verification.algorithms""",
    "only the policy Allowlist reads it": "connector.client.config.override.allowlist",
    "REST extensions are Java classes": "rest.extension.classes",
    _NO_JAVA_METRICS: """
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        auto.include.jmx.reporter""",
    "the settings `reader.*` configure connections": """
        client.dns.lookup client.id connections.max.idle.ms metadata.max.age.ms
        metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy receive.buffer.bytes
        reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
        retry.backoff.ms send.buffer.bytes socket.connection.setup.timeout.max.ms
        socket.connection.setup.timeout.ms""",
    _PYTHON_TLS: """
        ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class
        ssl.keymanager.algorithm ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm""",
    _LOGINS: """
        sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms""",
}
"""Unused keys, by the reason."""

_FAMILIES = {
    "internal.key.converter.": _CONVERTED_ELSEWHERE,
    "internal.value.converter.": _CONVERTED_ELSEWHERE,
    "admin.listeners.https.": _PYTHON_TLS,
    "listeners.https.": _PYTHON_TLS,
    "producer.": _OF_CONNECTOR_CLIENTS,
    "consumer.": _OF_CONNECTOR_CLIENTS,
    "admin.": _OF_CONNECTOR_CLIENTS,
    "metrics.context.": _NO_JAVA_METRICS,
    "sasl.kerberos.": _LOGINS,
    "sasl.oauthbearer.": _LOGINS,
}
"""Reason by prefix, for unused keys with arbitrary endings."""

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
"""Settings of topics (`TopicConfig`); a worker's file may set them for its own topics (KIP-605)."""

_STORES = ("config.storage.", "offset.storage.", "status.storage.", "command.storage.")

UNUSED = {key: reason for reason, keys in _UNUSED.items() for key in keys.split()} | {
    store + key: _ONLY_ON_KAFKA for store in _STORES for key in _OF_TOPICS.split()
}
"""Reason by key, for all other unused keys."""

ALIKE = 0.8
"""Minimum similarity (`difflib`) to suggest a known key. It covers one missing or surplus letter,
two swapped letters, and a plural in place of a singular."""

GUESSES = 100
"""Number of reported keys after which a call suggests nothing more. Each search for a suggestion
takes milliseconds, and a wrong file may have thousands of keys."""


class UnknownSetting(msgspec.Struct, frozen=True):
    """An unknown key, with the key that the user probably meant."""

    key: str
    source: ValueSource
    meant: str | None

    def __str__(self) -> str:
        guess = f": did you mean {self.meant}?" if self.meant else ""
        return f"{self.source}: {self.key} is no setting of a worker{guess}"


OPEN_ENDED = ("config.providers.", "key.converter.", "value.converter.", "header.converter.")
"""Prefixes of supported keys with arbitrary endings: settings of providers and converters."""


def unused(key: str) -> str | None:
    """Return the reason why a key of Kafka is unused; None for other keys."""
    families = (reason for prefix, reason in _FAMILIES.items() if key.startswith(prefix))
    return UNUSED.get(key) or next(families, None)


def unknown(values: Mapping[str, SourcedValue], supported: Iterable[str]) -> list[UnknownSetting]:
    """Return the keys that are neither Kafka's nor in `supported`.

    From the environment, only misspelt keys are reported: other programs use `CONNECT_` too.
    """
    supported = set(supported)
    names = sorted(supported | UNUSED.keys())
    unknown_keys: list[UnknownSetting] = []
    for key, (_, source) in values.items():
        if key in supported or key.startswith(OPEN_ENDED) or unused(key):
            continue
        guesses = len(unknown_keys) < GUESSES
        close = get_close_matches(key, names, n=1, cutoff=ALIKE) if guesses else []
        meant = next(iter(close), None)
        if meant or source.kind != "environment":
            unknown_keys.append(UnknownSetting(key, source, meant))
    return unknown_keys

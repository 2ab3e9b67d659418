"""Rules of Kafka's own connectors for a whole config, under the names used in catalogues.

`exactly_once` of a plugin is `supported`, `unsupported` or a rule of `_EXACTLY_ONCE`. `checks` is a
rule of `_CHECKS`, which gives errors beyond those of single keys (`Connector.validate`).
"""

from collections.abc import Callable, Iterator, Mapping

from controlplane.core.java.java_library import trim
from controlplane.core.records import Properties


def exactly_once(rule: str | None, config: Properties) -> bool | None:
    """True if a connector supports exactly-once with this config; None: no statement.

    `rule` is a plugin's `exactly_once`.
    """
    if rule is None:
        return None
    decide = _EXACTLY_ONCE.get(rule)
    return rule == "supported" if decide is None else decide(config)


def errors_of(rule: str | None, config: Properties) -> Iterator[tuple[str, str]]:
    """Pairs of key and error from a connector's own check. `rule` is a plugin's `checks`."""
    check = None if rule is None else _CHECKS.get(rule)
    return iter(()) if check is None else check(config)


def _reads_file(config: Properties) -> bool:
    """True if a file is named. Standard input has no offsets, so it is not supported.

    Kafka: `FileStreamSourceConnector#exactlyOnceSupport`.
    """
    return bool(trim(config.get("file") or ""))


def _reads_committed(config: Properties) -> bool:
    """True if MirrorMaker's consumer reads committed records only; later prefixes win.

    Kafka: `sourceConsumerConfig` of MirrorMaker.
    """
    level = None
    for prefix in ("source.cluster.", "consumer.", "source.consumer."):
        level = config.get(f"{prefix}isolation.level", level)
    return level == "read_committed"


_EXACTLY_ONCE: Mapping[str, Callable[[Properties], bool]] = {
    "if it reads a file": _reads_file,
    "if it reads committed": _reads_committed,
}


_READ_COMMITTED = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is "
    "configured with isolation.level set to 'read_committed'; otherwise, records from aborted and "
    "uncommitted transactions will be replicated from the source cluster to the target cluster."
)
_SYNCS_OFF = "emit.offset-syncs.enabled set to false"
_SYNCS, _CHECKPOINTS = "emit.offset-syncs.enabled", "emit.checkpoints.enabled"


def _mirror_source(config: Properties) -> Iterator[tuple[str, str]]:
    if config.get("exactly.once.support") == "required" and not _reads_committed(config):
        yield "exactly.once.support", _READ_COMMITTED


def _mirror_source_syncs(config: Properties) -> Iterator[tuple[str, str]]:
    yield from _mirror_source(config)
    synced = any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in config)
    if config.get(_SYNCS) == "false" and synced:
        yield _SYNCS, f"MirrorSourceConnector can't setup offset-syncs feature while {_SYNCS_OFF}"


def _mirror_checkpoint(config: Properties) -> Iterator[tuple[str, str]]:
    if config.get("enabled") == "false":
        return
    if config.get(_CHECKPOINTS) == "false":
        yield (
            _CHECKPOINTS,
            f"MirrorCheckpointConnector can't run with {_CHECKPOINTS} set to false",
        )
    if config.get(_SYNCS) == "false":
        yield _SYNCS, "MirrorCheckpointConnector can't run without offset syncs"


_FindErrors = Callable[[Properties], Iterator[tuple[str, str]]]

_CHECKS: Mapping[str, _FindErrors] = {
    "reads committed": _mirror_source,
    "reads committed, offset syncs": _mirror_source_syncs,
    "checkpoints, offset syncs": _mirror_checkpoint,
}

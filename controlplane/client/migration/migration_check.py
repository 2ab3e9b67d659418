"""Check before a migration: both clusters can take part, and nothing is in the way.

Nothing is changed here. A refusal leaves both clusters as they are.
"""

from typing import NamedTuple, NoReturn

from controlplane.client.connectors.connector_summary import (
    STOPPED,
    ConnectorSummary,
    summary,
    target_state,
)
from controlplane.client.connectors.offset_lists import OffsetEntry, present_offsets
from controlplane.client.http.api import Api, connector, segment
from controlplane.client.http.request_errors import Declined
from controlplane.client.migration.migration_plan import FORMAT, Migration
from controlplane.core.releases.profiles import UnknownRelease, resolve, since
from controlplane.core.text.redaction import redacted_refusal

CLASS = "connector.class"


class CheckedMigration(NamedTuple):
    """A migration that can begin, with facts for people."""

    migration: Migration
    offsets: list[OffsetEntry]
    """Present offsets of the connector; they move until it is stopped."""
    remarks: tuple[str, ...]


async def check_migration(
    source: Api, target: Api, name: str, *, deletes: bool
) -> CheckedMigration:
    """Check a migration from one cluster to another.

    Raises:
        Declined: a release lacks what is needed, there is no such connector at the source, there is
            one at the target, or the target refuses its config. Also: the consumer group of a sink
            cannot be read.
        Unavailable: a cluster fails.
    """
    check_release(source, "stops", "stop a connector and read its offsets")
    check_release(target, "creates_in_state", "create a stopped connector")
    check_release(target, "alters_offsets", "set the offsets of a connector")
    connector = await summary(source, name)
    if connector is None:
        raise Declined(f"{source.name} has no connector {name}: `controlplane get` lists all")
    state = await target_state(source, connector)
    existing = await summary(target, name)
    if existing is not None:
        await _refuse_existing(source, connector, state, target, existing)
    config = dict(connector.info["config"])
    await _check_config(target, name, config)
    if connector.type == "sink":
        await source.need_groups()
        await target.need_groups()
    migration = Migration(FORMAT, name, source.name, target.name, deletes, state, config)
    remarks = _sink_remarks(source, target) if connector.type == "sink" else ()
    return CheckedMigration(migration, await present_offsets(source, name), remarks)


async def _refuse_existing(
    source: Api, original: ConnectorSummary, state: str, target: Api, existing: ConnectorSummary
) -> NoReturn:
    """Refuse a connector that the target has; `state` is the original's target state.

    If both addresses lead to one cluster, it is the original, which must not be deleted.

    Raises:
        Declined: always.
    """
    name = original.name
    if (
        source.server.cluster_id == target.server.cluster_id
        and original.info["config"] == existing.info["config"]
        and state == await target_state(target, existing)
    ):
        raise Declined(
            f"{source.name} and {target.name} seem to be one cluster: both have {name}, with the "
            "same config and target state. Name another --to"
        )
    raise Declined(
        f"{target.name} has a connector {name} already: delete it there, or migrate another"
    )


def check_release(api: Api, ability: str, words: str) -> None:
    """Raise `Declined` if the release of a cluster is known and lacks an ability.

    `ability`: field of `Profile`. `words`: the ability for people.
    """
    try:
        profile = resolve(api.server.version).profile
    except UnknownRelease:
        return  # a fork: it may refuse by itself
    if not getattr(profile, ability):
        raise Declined(
            f"{api.name} is {api.server.name}, which cannot {words}: that takes {since(ability)} "
            "or newer"
        )


async def _check_config(target: Api, name: str, config: dict[str, str | None]) -> None:
    """Let the target judge the config; nothing is changed.

    Raises:
        Declined: the class is missing there, or the config is invalid.
    """
    if target.server.ours:
        body = {"name": name, "config": config, "initial_state": STOPPED}
        await target.send("POST", "/connectors", body, dry_run=True)
        return
    class_name = config.get(CLASS) or ""
    classes = [str(plugin["class"]) for plugin in await target.get("/connector-plugins")]
    if not any(_names(class_name, plugin) for plugin in classes):
        raise Declined(
            f"{target.name} has no connector class {class_name}: install the plugin on its workers"
        )
    path = f"/connector-plugins/{segment(class_name)}/config/validate"
    validated = (await target.send("PUT", path, config)).body["configs"]
    errors = [str(error) for key in validated for error in key["value"]["errors"]]
    if errors:
        text = redacted_refusal("; ".join(dict.fromkeys(errors)))
        raise Declined(f"{target.name} refuses the config of {name}: {text}")


def _names(name: str, class_name: str) -> bool:
    """True if a name means a class.

    The name may be full, simple, or simple without the suffix `Connector`.
    """
    simple = class_name.rpartition(".")[2].rpartition("$")[2]
    return name in (class_name, simple, simple.removesuffix("Connector"))


def _sink_remarks(source: Api, target: Api) -> tuple[str, ...]:
    """Remark about the offsets of a sink, which are positions in topics of a Kafka cluster."""
    source_id, target_id = source.server.cluster_id, target.server.cluster_id
    if source_id is not None and source_id == target_id:
        return ()
    return (_FITTING,)


_FITTING = (
    "the offsets of a sink are positions in topics. They fit only if the topics of the other Kafka "
    "cluster have the same records at the same offsets"
)


async def has_same_config(api: Api, migration: Migration) -> bool:
    """True if the connector exists with the config of the migration."""
    return await api.find(connector(migration.name, "config")) == migration.config

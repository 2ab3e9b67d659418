"""`--hazards`: records that stop a worker, make reads fail, or make members disagree.

Without `--release` the hazards of all releases are listed. A record that stops one release is often
harmless to the next.
"""

from collections.abc import Mapping

from controlplane.cli.inspect.connector_view import check_connector
from controlplane.cli.inspect.overview import vector
from controlplane.cli.opened_log import InputLog
from controlplane.core.entry import Entry, Position
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.views.hazards import Danger
from controlplane.terminal.hazard_hits import (
    HEADS,
    HazardHit,
    HazardReader,
    hit_document,
    without_releases,
)
from controlplane.terminal.output import print_json, say
from controlplane.terminal.tables import table

_STYLES = {Danger.STOPS_WORKER: "red", Danger.LOSES_BATCH: "red", Danger.READ_FAILS: "red"}


async def show(
    source: InputLog, profile: Profile | None, output: str, connector: str | None
) -> int:
    """Print the hazards for one release or for all (None), worst first; return their number.

    With `connector`, hazards of other connectors are left out.

    Raises:
        InputRefused: the log has nothing about `connector`.
    """
    entries = await source.entries()
    reader = HazardReader(profile, source.topics, source.exactly_once)
    hits = reader.hits(entries, connector)
    if connector is not None and all(hit.hazard.connector != connector for hit in hits):
        check_connector(connector, [await source.state(profile or Profile.of(KIP))])
    by_position = {entry.position: entry for entry in entries}
    if output == "json":
        about = {
            "profile": profile.release if profile else None,
            "exactly_once": source.exactly_once,
        }
        documents = [hit_document(hit, by_position) for hit in hits]
        print_json(source.document_fields | about | {"hazards": documents})
        return len(hits)
    _print(reader, hits, by_position)
    say(reader.summary(source.where, len(hits)))
    say(f"read up to {vector(source)}")
    return len(hits)


def _print(
    reader: HazardReader, hits: list[HazardHit], by_position: Mapping[Position, Entry]
) -> None:
    if not hits:
        return
    heads: tuple[str, ...] = HEADS
    rows = [reader.cells(hit, by_position[hit.hazard.position]) for hit in hits]
    if not any(hit.releases for hit in hits):
        heads, rows = without_releases(heads), list(map(without_releases, rows))
    styles = {number: _STYLES.get(hit.hazard.danger, "") for number, hit in enumerate(hits)}
    table(heads, rows, styles, spare=("KEY",))
    say()

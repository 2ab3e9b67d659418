"""`bundle`: connectors carried from one cluster to another, with all that they need to go on.

A command of its own, since `controlplane import` is about logs: that copies records as they are,
from a cluster that is only read; this asks a cluster's API, and makes connectors in another.

A bundle is a JSON file of config, target state, offsets and, to be looked up, the topics that were
used. Whatever the cluster: the connector is made stopped, given its offsets, and only then let run.
Each of these steps may be repeated, so an import that broke off is simply done again.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.client.commands.apply_command import UNCHANGED, changes_of, in_words
from controlplane.client.commands.batch import ConnectorResult, dry_run_option, each
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.offset_commands import present
from controlplane.client.commands.verbs import asks, creates, verb
from controlplane.client.connectors.connector_files import read_text
from controlplane.client.connectors.connector_summary import (
    PAUSED,
    RUNNING,
    STOPPED,
    ConnectorSummary,
    summary,
    target_state,
)
from controlplane.client.connectors.offset_lists import OffsetEntry, alteration
from controlplane.client.connectors.selection import Selection, selected
from controlplane.client.connectors.wait import RUNS, wait_for, wait_options
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import Declined, Unavailable, Unsupported
from controlplane.core.text.file_errors import unwritable
from controlplane.core.text.safe_text import count
from controlplane.private_files import replacing
from controlplane.terminal.command_errors import FOUND, InputRefused, write
from controlplane.terminal.output import note
from controlplane.terminal.shell_completion import complete_files

FORMAT = 1
"""Format version of a bundle; files of another version are refused."""


class BundledConnector(msgspec.Struct, frozen=True):
    """A connector with all that it needs to go on elsewhere."""

    name: str
    config: dict[str, str | None]
    target_state: str
    """RUNNING, PAUSED or STOPPED."""
    offsets: list[dict[str, Any]] | None = None
    """None: the cluster could not tell them."""
    topics: list[str] = []
    """Topics that the connector has used, for information: no API can set them."""


class Bundle(msgspec.Struct, frozen=True):
    """Content of a bundle file."""

    bundle: int
    connectors: list[BundledConnector]
    exported_from: dict[str, Any] = {}
    """Release and cluster, to be looked up."""


# --- export -------------------------------------------------------------------------------------


@asks(
    "export",
    selected,
    click.option(
        "-f",
        "--file",
        metavar="FILE",
        default="-",
        help="File to write. [default: -, standard output]",
        shell_complete=complete_files,
    ),
)
async def export(api: Api, selection: Selection, file: str) -> None:
    """Write connectors to a file: config, target state, offsets, topics. Secrets are in it.

    Who stops them before has offsets that do not move any more. Exit code 1: the offsets of some
    could not be told.
    """
    names = await selection.of(api)
    server = {"version": api.server.version, "kafka_cluster_id": api.server.cluster_id}
    bundle = Bundle(FORMAT, [await _exported(api, name) for name in names], server)
    text = json.dumps(msgspec.to_builtins(bundle), indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        write(text)
    else:
        _write_private(Path(file), text)
        note(f"{count(len(names), 'connector')} written to {file}")
    if any(one.offsets is None for one in bundle.connectors):
        raise SystemExit(FOUND)


def _write_private(path: Path, text: str) -> None:
    try:
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise InputRefused(unwritable(path, failure)) from None


async def _exported(api: Api, name: str) -> BundledConnector:
    found = await summary(api, name)
    if found is None:
        raise Declined(f"there is no connector {name}; `controlplane get` lists those there are")
    if RUNNING in found.states:
        note(f"{name} runs, and its offsets go on: stop it before, if it is to be exact")
    state = await target_state(api, found)
    config = dict(found.info["config"])
    topics = await _topics(api, name)
    return BundledConnector(name, config, state, await _offsets(api, name), topics)


async def _offsets(api: Api, name: str) -> list[dict[str, Any]] | None:
    """Offsets of a connector; None: the release has no such endpoint, or no group answers."""
    try:
        return [dict(one) for one in await present(api, name)]
    except (Unsupported, Unavailable) as failure:
        note(f"Warning: {name} is exported without its offsets: {failure.message}")
        return None


async def _topics(api: Api, name: str) -> list[str]:
    """The topics that a connector has used; none where that is not kept."""
    try:
        return sorted((await api.get(connector(name, "topics")))[name]["topics"])
    except Declined:
        return []


# --- import -------------------------------------------------------------------------------------


def _prepared(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the name of the file by the connectors in it."""
    file, name = arguments.pop("file"), arguments.pop("name")
    return {**arguments, "wanted": {one.name: one for one in _renamed(_read(file), name)}}


@creates(
    "import",
    _prepared,
    click.argument("file", shell_complete=complete_files),
    click.option("-n", "--name", metavar="NAME", help="Another name; for a bundle of one."),
    wait_options,
    dry_run_option,
    output_option,
)
async def import_(
    api: Api,
    wanted: Mapping[str, BundledConnector],
    wait_s: float | None,
    output: str,
    *,
    dry_run: bool,
) -> None:
    """Make the connectors of a bundle, with their offsets and their target state.

    One that is there with the same config, and is stopped, is given the offsets: so an import that
    broke off is finished.
    """

    async def act(one: str) -> ConnectorResult:
        told = await _imported(api, wanted[one], dry_run=dry_run)
        if wanted[one].target_state == RUNNING:
            await wait_for(api, one, RUNS, wait_s)
        return told

    await each(list(wanted), act, output)


def _read(file: str) -> list[BundledConnector]:
    try:
        bundle = msgspec.json.decode(read_text(file, "what `bundle export` wrote"), type=Bundle)
    except (msgspec.DecodeError, ValueError) as error:
        raise InputRefused(
            f"{file} is no bundle ({error}): give what `bundle export` wrote"
        ) from None
    if bundle.bundle != FORMAT:
        raise InputRefused(f"{file} is a bundle of format {bundle.bundle}: here {FORMAT} is known")
    return bundle.connectors


def _renamed(connectors: list[BundledConnector], name: str | None) -> list[BundledConnector]:
    if name is None:
        return connectors
    if len(connectors) != 1:
        raise InputRefused("-n names one connector, and the bundle has several")
    (one,) = connectors
    return [msgspec.structs.replace(one, name=name, config={**one.config, "name": name})]


async def _imported(api: Api, one: BundledConnector, *, dry_run: bool) -> ConnectorResult:
    found = await summary(api, one.name)
    if found is not None:
        return await _continued(api, one, found, dry_run=dry_run)
    if api.server.ours:
        return await _made(api, one, dry_run=dry_run)
    await api.send("POST", "/connectors", _stopped(one), dry_run=dry_run)
    return await _completed(api, one, "created", dry_run=dry_run)


async def _made(api: Api, one: BundledConnector, *, dry_run: bool) -> ConnectorResult:
    """All at once (KIP-995): nothing is there by halves."""
    offsets = {"initial_offsets": one.offsets} if one.offsets else {}
    body = {"name": one.name, "config": one.config, "initial_state": one.target_state, **offsets}
    given = await api.send("POST", "/connectors", body, dry_run=dry_run)
    return ConnectorResult(one.name, "created", _words(one), plan=given.body if dry_run else None)


def _stopped(one: BundledConnector) -> dict[str, Any]:
    """A connector that does nothing before it has its offsets (KIP-980)."""
    return {"name": one.name, "config": one.config, "initial_state": STOPPED}


async def _continued(
    api: Api, one: BundledConnector, found: ConnectorSummary, *, dry_run: bool
) -> ConnectorResult:
    """A connector that is there: an earlier import may have broken off."""
    changed = changes_of(found.info["config"], one.config)
    if changed:
        told = "; ".join(in_words(changed))
        raise Declined(f"{one.name} is there with another config ({told}): delete it first, or -n")
    state = await target_state(api, found)
    if state == one.target_state and not await _alteration(api, one):
        return ConnectorResult(one.name, UNCHANGED)
    if state != STOPPED:
        raise Declined(
            f"{one.name} is there and {state}: `controlplane stop {one.name}`, and import once more"
        )
    return await _completed(api, one, "completed", dry_run=dry_run)


async def _completed(
    api: Api, one: BundledConnector, did: str, *, dry_run: bool
) -> ConnectorResult:
    """A stopped connector is given its offsets, and only then let run."""
    altered = await _alteration(api, one)
    if altered:
        path = connector(one.name, "offsets")
        given = await api.send("PATCH", path, {"offsets": altered}, dry_run=dry_run)
        if dry_run:
            return ConnectorResult(one.name, did, plan=given.body)
    if one.target_state != STOPPED:
        path = connector(one.name, _VERBS[one.target_state])
        given = await api.send("PUT", path, dry_run=dry_run)
        if dry_run:
            return ConnectorResult(one.name, did, plan=given.body)
    return ConnectorResult(one.name, did, _words(one))


_VERBS = {RUNNING: "resume", PAUSED: "pause"}


async def _alteration(api: Api, one: BundledConnector) -> list[OffsetEntry]:
    """Changes from the present offsets to the bundle's. An older connector may have left some."""
    if one.offsets is None:
        return []
    return alteration(await present(api, one.name), one.offsets)


def _words(one: BundledConnector) -> str:
    return f"{one.target_state}, {count(len(one.offsets or ()), 'offset')}"


bundle = verb("bundle", "Move connectors to another cluster.", "export", (export, import_))

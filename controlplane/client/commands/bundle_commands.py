"""`bundle`: copy connectors to another cluster, with config, target state and offsets.

`bundle` uses the API of both clusters, while `controlplane import` copies the records of a log.

A bundle is a JSON file. In our control plane, the import creates a connector with its offsets in
one command (KIP-995). In Kafka's workers, it creates the connector stopped, sets its offsets, and
only then starts it. A connector with an empty list of offsets takes the same three steps in our
control plane, too (`_imported`). Each step may be repeated, so a second import completes an
interrupted one.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import click
import msgspec

from controlplane.client.commands.apply_command import UNCHANGED, changes_of, in_words
from controlplane.client.commands.batch import ConnectorResult, act_on_each, dry_run_option
from controlplane.client.commands.documents import output_option
from controlplane.client.commands.plan_tables import PlanDocument, joined
from controlplane.client.commands.verbs import create_command, read_command, verb
from controlplane.client.connectors.connector_files import no_unicode, read_text
from controlplane.client.connectors.connector_summary import (
    RUNNING,
    STOPPED,
    ConnectorSummary,
    summary,
    target_state,
)
from controlplane.client.connectors.offset_lists import (
    OffsetEntry,
    alteration,
    offsets_in,
    present_offsets,
)
from controlplane.client.connectors.selection import Selection, explicit_selection
from controlplane.client.connectors.wait import GOALS, wait_for, wait_options
from controlplane.client.http.api import Api, connector
from controlplane.client.http.request_errors import (
    Declined,
    Unavailable,
    Unsupported,
    no_connector,
)
from controlplane.client.migration.migration_check import check_release
from controlplane.client.migration.migration_plan import TARGET_VERBS
from controlplane.core.moments import quoted
from controlplane.core.text.file_errors import unwritable
from controlplane.core.text.safe_text import count
from controlplane.private_files import replacing
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.output import note, print_json
from controlplane.terminal.shell_completion import complete_files

FORMAT = 1
"""Version of the bundle format; files of another version are refused."""


class BundledConnector(msgspec.Struct, frozen=True):
    """Everything that a bundle stores about one connector."""

    name: str
    config: dict[str, str | None]
    target_state: str
    """RUNNING, PAUSED or STOPPED."""
    offsets: list[OffsetEntry] | None = None
    """None: the cluster did not return them."""
    topics: list[str] = []
    """Topics that the connector has used, for information: no API can set them."""


class Bundle(msgspec.Struct, frozen=True):
    """Exported connectors, under the version of the file's format."""

    bundle: int
    connectors: list[BundledConnector]
    exported_from: dict[str, Any] = {}
    """Release and cluster id, for information."""


# --- export -------------------------------------------------------------------------------------


@read_command(
    "export",
    explicit_selection,
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
    """Write connectors to a file: config, target state, offsets, topics.

    The file contains secrets. Offsets of a running connector keep changing: stop it first. Exit
    code 1: offsets of a connector are missing.
    """
    names = await selection.of(api)
    if not names:
        raise Declined("no connector is selected: none matches, so no bundle is written")
    server = {"version": api.server.version, "kafka_cluster_id": api.server.cluster_id}
    bundle = Bundle(FORMAT, [await _exported(api, name) for name in names], server)
    document = msgspec.to_builtins(bundle)
    if file == "-":
        print_json(document)
    else:
        for bundled in bundle.connectors:
            _check_unicode(bundled)
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
        _write_private(Path(file), text)
        note(f"{count(len(names), 'connector')} written to {file}")
    if any(bundled.offsets is None for bundled in bundle.connectors):
        raise SystemExit(FOUND)


def _check_unicode(bundled: BundledConnector) -> None:
    """Refuse a connector that no file can hold.

    Raises:
        InputRefused: UTF-8 cannot encode a text in it.
    """
    try:
        msgspec.json.encode(bundled)
    except UnicodeEncodeError:
        raise no_unicode(bundled.name) from None


def _write_private(path: Path, text: str) -> None:
    try:
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise InputRefused(unwritable(path, failure)) from None


async def _exported(api: Api, name: str) -> BundledConnector:
    connector_summary = await summary(api, name)
    if connector_summary is None:
        raise no_connector(name)
    if RUNNING in connector_summary.states:
        note(
            f"Warning: {name} is running, so its offsets keep changing: stop it first for exact "
            "offsets"
        )
    state = await target_state(api, connector_summary)
    config = dict(connector_summary.info["config"])
    topics = await _topics(api, name)
    return BundledConnector(name, config, state, await _offsets(api, name), topics)


async def _offsets(api: Api, name: str) -> list[OffsetEntry] | None:
    """Offsets of a connector; None: no such endpoint, or the consumer group is unreachable."""
    try:
        return await present_offsets(api, name)
    except (Unsupported, Unavailable) as failure:
        note(f"Warning: {name} is exported without its offsets: {failure.message}")
        return None


async def _topics(api: Api, name: str) -> list[str]:
    """Topics that a connector has used; empty if the cluster does not track them."""
    try:
        return sorted((await api.get(connector(name, "topics")))[name]["topics"])
    except Declined:
        return []


# --- import -------------------------------------------------------------------------------------


def _prepared(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace the name of the file by the connectors in it."""
    file, name = arguments.pop("file"), arguments.pop("name")
    bundled = _renamed(_read(file), name)
    return {**arguments, "wanted": {connector.name: connector for connector in bundled}}


@create_command(
    "import",
    _prepared,
    click.argument("file", shell_complete=complete_files),
    click.option(
        "-n",
        "--name",
        metavar="NAME",
        callback=not_empty,
        help="New name, for a bundle of one connector.",
    ),
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
    """Create the connectors of a bundle, with their offsets and target states.

    A stopped connector that exists with the same config gets the offsets: a second import completes
    an interrupted one.
    """

    async def act(name: str) -> ConnectorResult:
        result = await _imported(api, wanted[name], dry_run=dry_run)
        await wait_for(api, name, GOALS[wanted[name].target_state], wait_s)
        return result

    await act_on_each(list(wanted), act, output)


def _read(file: str) -> list[BundledConnector]:
    try:
        bundle = msgspec.json.decode(read_text(file, "a file of `bundle export`"), type=Bundle)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputRefused(
            f"{file} is no bundle ({error}): give a file of `bundle export`"
        ) from None
    if bundle.bundle != FORMAT:
        raise InputRefused(
            f"{file} is a bundle of format {bundle.bundle}, and this version reads {FORMAT}: "
            "export it again with this version"
        )
    _check_names(file, bundle.connectors)
    return [_checked(file, bundled) for bundled in bundle.connectors]


def _check_names(file: str, connectors: list[BundledConnector]) -> None:
    """Refuse a bundle with two connectors of one name, or with an empty name.

    Raises:
        InputRefused: a name is repeated or empty.
    """
    numbers = Counter(bundled.name for bundled in connectors)
    if "" in numbers:
        raise InputRefused(f"{file} has a connector with an empty name: write its name")
    repeated = [name for name, number in numbers.items() if number > 1]
    if repeated:
        raise InputRefused(f"{file} has several connectors named {repeated[0]}: remove all but one")


def _checked(file: str, bundled: BundledConnector) -> BundledConnector:
    """A connector whose target state exists, and whose offsets are complete entries.

    Raises:
        InputRefused: the target state is unknown, or an offset is no complete entry.
    """
    where = f"{bundled.name} in {file}"
    if bundled.target_state not in GOALS:
        states = " or ".join(GOALS)
        raise InputRefused(
            f"{where} has the target state {quoted(bundled.target_state)}: write {states}"
        )
    try:
        offsets = None if bundled.offsets is None else offsets_in(bundled.offsets)
    except ValueError as error:
        raise InputRefused(f"the offsets of {where} cannot be read: {error}") from None
    return msgspec.structs.replace(bundled, offsets=offsets)


def _renamed(connectors: list[BundledConnector], name: str | None) -> list[BundledConnector]:
    if name is None:
        return connectors
    if len(connectors) != 1:
        number = count(len(connectors), "connector")
        raise InputRefused(f"-n names one connector, but the bundle has {number}: leave out -n")
    (bundled,) = connectors
    return [msgspec.structs.replace(bundled, name=name, config={**bundled.config, "name": name})]


async def _imported(api: Api, bundled: BundledConnector, *, dry_run: bool) -> ConnectorResult:
    existing = await summary(api, bundled.name)
    if existing is not None:
        return await _continued(api, bundled, existing, dry_run=dry_run)
    check_release(api, "creates_in_state", "create a stopped connector")
    # KIP-995 refuses an empty list. So a later request removes the offsets that an earlier
    # connector of this name has left.
    if api.server.ours and bundled.offsets != []:
        return await _created(api, bundled, dry_run=dry_run)
    answer = await api.send("POST", "/connectors", _stopped(bundled), dry_run=dry_run)
    if dry_run:
        plan = {**answer.body, "assumed": [*answer.body["assumed"], *_later_steps(bundled)]}
        return ConnectorResult(bundled.name, "created", plan=plan)
    try:
        return await _completed(api, bundled, "created", dry_run=False)
    except BaseException:  # Ctrl-C, too: the created connector stays, so say how to go on
        note(
            f"{bundled.name} was created, but not completed: import it again, or run "
            f"`controlplane delete {quote(bundled.name)}`"
        )
        raise


def _later_steps(bundled: BundledConnector) -> Iterator[str]:
    """Yield the steps that a dry run cannot plan before the connector exists."""
    yield "offsets that an earlier connector of this name has left are removed afterwards"
    if bundled.target_state != STOPPED:
        yield f"the target state becomes {bundled.target_state} last, with one more record"


async def _created(api: Api, bundled: BundledConnector, *, dry_run: bool) -> ConnectorResult:
    """Create a connector with its offsets in one command of our control plane (KIP-995)."""
    body = {
        "name": bundled.name,
        "config": bundled.config,
        "initial_state": bundled.target_state,
        **({"initial_offsets": bundled.offsets} if bundled.offsets else {}),
    }
    answer = await api.send("POST", "/connectors", body, dry_run=dry_run)
    plan = answer.body if dry_run else None
    return ConnectorResult(bundled.name, "created", _words(bundled), plan=plan)


def _stopped(bundled: BundledConnector) -> dict[str, Any]:
    """Body that creates a connector stopped, until it has its offsets (KIP-980)."""
    return {"name": bundled.name, "config": bundled.config, "initial_state": STOPPED}


async def _continued(
    api: Api, bundled: BundledConnector, existing: ConnectorSummary, *, dry_run: bool
) -> ConnectorResult:
    """Complete the import of an existing connector, after an interruption."""
    changed = changes_of(existing.info["config"], bundled.config)
    if changed:
        words = "; ".join(in_words(changed))
        raise Declined(
            f"{bundled.name} exists with another config ({words}): delete it, or import under "
            "another name with -n"
        )
    state = await target_state(api, existing)
    if state == bundled.target_state and not await _alteration(api, bundled):
        return ConnectorResult(bundled.name, UNCHANGED)
    if state != STOPPED:
        raise Declined(
            f"{bundled.name} exists and is {state}: run `controlplane stop {quote(bundled.name)}`, "
            "then import again"
        )
    return await _completed(api, bundled, "completed", dry_run=dry_run)


async def _completed(
    api: Api, bundled: BundledConnector, outcome: str, *, dry_run: bool
) -> ConnectorResult:
    """Set the offsets of a stopped connector, then its target state."""
    plans: list[PlanDocument] = []
    altered = await _alteration(api, bundled)
    if altered:
        path = connector(bundled.name, "offsets")
        answer = await api.send("PATCH", path, {"offsets": altered}, dry_run=dry_run)
        plans.append(answer.body)
    if bundled.target_state != STOPPED:
        path = connector(bundled.name, TARGET_VERBS[bundled.target_state])
        answer = await api.send("PUT", path, dry_run=dry_run)
        plans.append(answer.body)
    plan = joined(plans) if dry_run else None
    return ConnectorResult(bundled.name, outcome, _words(bundled), plan=plan)


async def _alteration(api: Api, bundled: BundledConnector) -> list[OffsetEntry]:
    """Changes from the present offsets to the bundle's.

    A deleted connector of this name may have left offsets.
    """
    if bundled.offsets is None:
        return []
    return alteration(await present_offsets(api, bundled.name), bundled.offsets)


def _words(bundled: BundledConnector) -> str:
    return f"{bundled.target_state}, {count(len(bundled.offsets or ()), 'offset')}"


bundle = verb(
    "bundle", "Copy connectors to another cluster.", "export", (export, import_), part="action"
)

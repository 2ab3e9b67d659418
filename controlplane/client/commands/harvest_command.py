"""`plugins harvest`: write a catalogue of the plugins of a worker, or of Kafka's jars."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import click

from controlplane.client.commands.verbs import access_options
from controlplane.client.http.cluster_address import ClusterAddress
from controlplane.client.http.connection import over_network
from controlplane.client.http.request_errors import Declined, Unavailable
from controlplane.core.releases.profiles import Profile, UnknownRelease
from controlplane.core.text.safe_text import count
from controlplane.harvest.bounded_worker import BoundedWorker
from controlplane.harvest.catalogue_file import catalogue_text
from controlplane.harvest.harvest_result import Harvest, HarvestError, NoAnswer, NoWorker
from controlplane.harvest.jar_harvest import from_jars, jars_in
from controlplane.harvest.worker_harvest import from_worker, version_of
from controlplane.plugins import kafkas_own
from controlplane.private_files import replacing
from controlplane.terminal.command_errors import InputRefused, write
from controlplane.terminal.exit_codes import FOUND
from controlplane.terminal.log_options import read_profile
from controlplane.terminal.output import note
from controlplane.terminal.progress_bar import counting, working
from controlplane.terminal.shell_completion import complete_files

STDOUT = "-"


def _refused(_: click.Context, __: click.Parameter, value: str | None) -> None:
    """Refuse `--cluster`, which the other commands about plugins take."""
    if value is not None:
        raise click.UsageError("harvest takes no --cluster: name the worker by --worker URL")


@click.command("harvest")
@click.option(
    "-c",
    "--cluster",
    hidden=True,
    expose_value=False,
    callback=_refused,
    metavar="URL|LOG",
    shell_complete=complete_files,
    help="Refused: --worker names the worker.",
)
@click.option(
    "--worker",
    "where",
    metavar="URL",
    help="URL of the Connect worker to ask: http://host:8083.",
)
@click.option(
    "--jars",
    "folder",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder with the jars of Kafka and of plugins, also in subfolders; needs a JDK.",
)
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    default=STDOUT,
    shell_complete=complete_files,
    help="Catalogue file to write. [default: -, standard output]",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--release",
    metavar="RELEASE",
    help="Release of Kafka on which the worker or the jars are based. [default: their version]",
)
@access_options
def harvest(  # noqa: PLR0913 - click gives one argument per option
    *,
    where: str | None,
    folder: Path | None,
    file: str,
    release: str | None,
    user: str | None,
    token: str | None,
    ca_file: Path | None,
    force: bool,
) -> None:
    """Write a catalogue of the plugins of a worker, or of a folder of jars.

    The file has Kafka's documentation of every setting, and the settings of plugins that are not
    Kafka's own. `--plugins FILE` and the setting `plugins.catalogue` take it. With this file, two
    endpoints under /compat/RELEASE answer byte for byte as a worker does. They are
    /connector-plugins/PLUGIN/config and .../config/validate. RELEASE must be that of the worker or
    the jars. Nothing is written to the worker.

    Exit code 1: some plugins or settings are missing; each is named on standard error.
    """
    if (where is None) == (folder is None):
        raise click.UsageError("name one source: --worker URL or --jars FOLDER")
    _check_absent(file, force=force)
    try:
        if where is not None:
            harvested, text = _of_worker(ClusterAddress(where, user, token, ca_file), release)
        else:
            assert folder is not None
            harvested, text = _of_jars(folder, release)
    except NoWorker as error:
        raise Declined(str(error)) from None
    except NoAnswer as error:
        raise Unavailable(str(error)) from None
    except HarvestError as error:
        raise InputRefused(str(error)) from None
    _write(file, text)
    _report(harvested, file, text)


def _check_absent(file: str, *, force: bool) -> None:
    if file != STDOUT and not force and Path(file).exists():
        raise InputRefused(f"{file} exists already: name another file, or replace it with --force")


def _of_worker(cluster: ClusterAddress, release: str | None) -> tuple[Harvest, str]:
    if not cluster.is_url:
        raise InputRefused(
            f"{cluster.without_login} is no URL of a worker: write --worker http://host:8083"
        )

    cluster = cluster.with_password()

    async def harvested(progress: Callable[[int, int], None]) -> tuple[Harvest, str]:
        async with over_network(cluster, "--worker") as client:
            worker = BoundedWorker(client, cluster.without_login)
            version = await version_of(worker)
            profile = _profile(release or version)
            harvested_worker = await from_worker(worker, version, profile, kafkas_own(), progress)
            return harvested_worker, catalogue_text(harvested_worker, kafkas_own(), profile)

    with counting(f"asking {cluster.without_login}") as progress:
        return asyncio.run(harvested(progress))


def _of_jars(folder: Path, release: str | None) -> tuple[Harvest, str]:
    jars = jars_in(folder)
    with working(f"reading the plugins of {count(len(jars), 'jar')}"):
        try:
            harvested_jars = from_jars(jars, kafkas_own(), release)
        except UnknownRelease as error:
            raise _unknown(error) from None
    return harvested_jars, catalogue_text(
        harvested_jars, kafkas_own(), _profile(release or harvested_jars.release)
    )


def _profile(release: str) -> Profile:
    try:
        return read_profile(release)
    except UnknownRelease as error:
        raise _unknown(error) from None


def _unknown(error: UnknownRelease) -> InputRefused:
    return InputRefused(
        f"{error}; set --release to the release of Kafka on which the worker or the jars are based"
    )


def _write(file: str, text: str) -> None:
    if file == STDOUT:
        write(text)
        return
    try:
        with replacing(Path(file)) as draft:
            draft.write_text(text, "utf-8")
    except OSError as failure:
        raise InputRefused(
            f"{file} cannot be written ({failure.strerror}): name another file"
        ) from None


def _report(harvested: Harvest, file: str, text: str) -> None:
    for sentence in harvested.lacking:
        note(sentence)
    if file != STDOUT:
        written = json.loads(text)
        settings = sum(map(len, written["documentation"].values()))
        note(
            f"{count(len(written['plugins']), 'plugin')} of {harvested.release} and the "
            f"documentation of {count(settings, 'setting')} written to {file}"
        )
    if harvested.lacking:
        raise SystemExit(FOUND)

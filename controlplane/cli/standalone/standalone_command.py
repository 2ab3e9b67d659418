"""The command `standalone`: a worker with its connectors in one process, until Ctrl-C."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from controlplane.cli.serve.serve_command import announce
from controlplane.cli.serve.serve_options import (
    ServeOptions,
    address_options,
    log_format_in_force,
    log_line_options,
)
from controlplane.cli.serve.service_run import ListenOptions, serve_until_signal
from controlplane.cli.standalone.connector_requests import ConnectorRequest, read_requests
from controlplane.cli.standalone.standalone_worker import open_worker, runnable_classes
from controlplane.cli.standalone.worker_storage import WorkerStorage, opened_storage, storage_of
from controlplane.client.http.request_errors import Declined, refusal_text
from controlplane.core.plan import Rejected
from controlplane.core.releases.profiles import KIP
from controlplane.core.text.safe_text import safe
from controlplane.logs.log import ReadableLog
from controlplane.logs.names import is_cluster
from controlplane.observe import LogFormat
from controlplane.rest.service import Service
from controlplane.settings import WorkerSettings
from controlplane.terminal.log_options import LogOptions, read_plugins, read_profile
from controlplane.terminal.output import say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.worker_options import FILE, OVERRIDE, configured, warn_of_unknown


@click.command()
@click.argument("worker_properties", type=FILE)
@click.argument(
    "connectors", nargs=-1, shell_complete=complete_files, metavar="[CONNECTOR_FILE]..."
)
@address_options
@click.option(
    "--release",
    default=KIP,
    metavar="RELEASE",
    help="Release to answer as, for requests without profile=. [default: kip]",
)
@click.option(
    OVERRIDE,
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a setting of the worker; beats its file and the environment. May be repeated.",
)
@log_line_options
def standalone(  # noqa: PLR0913, PLR0917 - click gives one argument per option
    worker_properties: Path,
    connectors: tuple[str, ...],
    host: str | None,
    port: int | None,
    release: str,
    override: tuple[str, ...],
    quiet: bool,
    log_format: LogFormat | None,
) -> None:
    """Run a standalone worker, and create the connectors of files: connect-standalone.sh in Python.

    WORKER_PROPERTIES is the worker's .properties file. Its plugin.path names the modules and
    directories whose connectors may run. Its offset.storage.file.filename names the file of source
    offsets. A CONNECTOR_FILE is .properties, or JSON: a config with its name, or the body of POST
    /connectors. The body may have initial_state and initial_offsets.

    Configs and statuses end with the process. Source offsets stay in their file, which Java's
    standalone worker reads, too. Topics are on the brokers bootstrap.servers, unless records.log
    names an embedded log for them. If neither is set, that log is a file named after the offsets
    file, with the suffix .records.db. Exit code 3: a connector cannot be created or started.
    """
    configuration = configured(worker_properties, {}, override)
    warn_of_unknown(configuration)
    settings = configuration.settings(WorkerSettings)
    storage = storage_of(settings)
    offsets = storage.offsets.load()
    profile = read_profile(release)
    form = log_format_in_force(log_format, configuration)
    requests = read_requests(connectors, profile)
    classes = runnable_classes(configuration)
    service = ServeOptions(
        storage.topic_store,
        LogOptions(configuration, settings),
        profile,
        read_plugins(None, settings),
        exactly_once=False,
        follow=True,
        quiet=quiet,
        log_format=form,
        read_only=False,
        own=is_cluster(storage.topic_store),
    )
    serve_until_signal(
        service,
        configuration,
        ListenOptions(host, port),
        partial(open_worker, partial(opened_storage, storage, offsets), classes),
        partial(_create_and_announce, _StartOptions(storage, requests)),
    )


class _StartOptions(NamedTuple):
    """Storage of a worker, and the connectors that it creates first."""

    storage: WorkerStorage
    requests: list[ConnectorRequest]


async def _create_and_announce(
    start_options: _StartOptions,
    service: ServeOptions,
    log: ReadableLog,
    rest_service: Service,
    url: str,
) -> None:
    """Create the connectors of the files, one after the other; requests are answered meanwhile.

    Raises:
        Declined: a connector cannot be created or started.
    """
    assert rest_service.commands is not None
    (offsets, topic_store), requests = start_options
    for file, command in requests:
        answer = await rest_service.commands.carry_out(
            command, principal="standalone", key=None, profile=service.dialect
        )
        if isinstance(answer, Rejected):
            raise Declined(
                f"Failed to create connector for {file}: {refusal_text(answer.sentence)}"
            )
        answered = getattr(answer, "facts", {}).get("initial_offsets_response")
        say(f"Created connector {safe(command.connector)}{f'. {answered}' if answered else ''}")
    say(f"Source offsets are in {safe(str(offsets.path))}, topics in {safe(topic_store)}")
    await announce(service, log, rest_service, url)

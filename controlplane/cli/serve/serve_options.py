"""Options of the commands `serve` and `standalone`, and the settings that follow from them."""

import click
import msgspec

from controlplane.cli.serve.attached_options import AttachedOptions
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.logger_levels import Loggers
from controlplane.logs.names import is_cluster, is_embedded, without_login
from controlplane.observe import LOG_FORMATS, LogFormat, Logger, LogSettings, logger
from controlplane.plane import Settings, Surroundings
from controlplane.plane_settings import plane_settings
from controlplane.settings import Configuration
from controlplane.settings.prefixes import LOG
from controlplane.settings.worker_settings import LAST_PORT
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import LogOptions
from controlplane.terminal.number_options import WholeNumber
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import set_note_writer


def address_options(command: Decorated) -> Decorated:
    """Add `--host ADDRESS` and `--port N`; the command gets `host` and `port`, each may be None."""
    port = click.option(
        "--port",
        type=WholeNumber(0, LAST_PORT),
        metavar="N",
        help="Port to listen on; 0: any free one. "
        "[default: from `listeners` or `rest.port`, else 8083]",
    )
    host = click.option(
        "--host",
        metavar="ADDRESS",
        help="Address to listen on. "
        "[default: from `listeners` or `rest.host.name`, else 127.0.0.1]",
    )
    return host(port(command))


def log_line_options(command: Decorated) -> Decorated:
    """Add `--quiet` and `--log-format`; the command gets `quiet` and `log_format` (or None).

    `--log-format` takes effect at once: warnings about other options are written in that format.
    """
    log_format = click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS),
        is_eager=True,
        callback=lambda _context, _option, chosen: _write_notes_as(chosen),
        help="Format of log lines on standard error. [default: from `log.format`, or logfmt]",
    )
    quiet = click.option(
        "--quiet", is_flag=True, help="Log warnings only, no requests and commands."
    )
    return quiet(log_format(command))


def log_format_in_force(flag: LogFormat | None, configuration: Configuration) -> LogFormat:
    """Format of log lines: the flag, else the setting; notes are written in it from now on.

    Raises:
        SettingsError: the setting is invalid.
    """
    log_format = flag or configuration.settings(LogSettings, LOG).format
    _write_notes_as(log_format)
    return log_format


def _write_notes_as(log_format: LogFormat | None) -> LogFormat | None:
    """Write notes as log events if each line of standard error must be JSON."""
    if log_format == "json":
        lines = logger(log_format=log_format)
        set_note_writer(lambda text: lines.warning("setup_warning", text=text))
    return log_format


class ServeOptions(msgspec.Struct, frozen=True):
    """Options of `serve`: the log and how to answer from it."""

    where: str
    reading: LogOptions
    dialect: Profile
    plugins: Plugins
    exactly_once: bool
    follow: bool
    quiet: bool
    log_format: LogFormat
    read_only: bool
    own: bool = False
    """True if `where` is a cluster, and this process executes the commands itself. With `--own`,
    this process owns Connect's topics there. In `standalone`, the cluster has only data topics."""
    worker_id: str = ""
    """`host:port` in the statuses of connectors that run here."""
    attached: AttachedOptions | None = None
    """Workers that carry out commands; None: this process does, or the log is only read."""

    @property
    def plugin_path(self) -> tuple[str, ...]:
        """Modules and directories whose connectors run here; empty: none runs."""
        return self.reading.settings.plugin_path

    @property
    def runs_commands(self) -> bool:
        """True if commands are executed, that is if this process writes the log."""
        if is_cluster(self.where):
            return self.own
        return self.follow and not self.read_only and is_embedded(self.where)


def check_own(service: ServeOptions, *, attached: bool) -> None:
    """Raise `InputRefused` if another option contradicts `--own`."""
    if not is_cluster(service.where):
        raise InputRefused(
            f"--own keeps the state in Kafka, and {without_login(service.where)} is no cluster: "
            "serve kafka://BROKER:9092, or leave out --own"
        )
    if service.read_only or not service.follow:
        raise InputRefused("--own runs commands: leave out --read-only and --no-follow")
    if attached:
        raise InputRefused(
            "--own and --connect-url (connect.url) exclude each other: either this process runs "
            "the commands, or workers do"
        )


def writer_settings(
    service: ServeOptions, notices: Logger, loggers: Loggers
) -> tuple[Settings, Surroundings]:
    """Settings and surroundings of a control plane in this process."""
    configuration = service.reading.configuration
    settings = plane_settings(configuration, profile=service.dialect.release, on_kafka=service.own)
    if service.exactly_once:
        settings = msgspec.structs.replace(settings, exactly_once=True)
    return settings, Surroundings(plugins=service.plugins, notices=notices, loggers=loggers)

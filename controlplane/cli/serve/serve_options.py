"""Options of the command `serve`, and the settings that follow from them."""

import msgspec

from controlplane.cli.serve.attached_options import AttachedOptions
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.logger_levels import Loggers
from controlplane.logs.names import is_cluster, is_embedded
from controlplane.observe import LogFormat, Logger
from controlplane.plane import Settings, Surroundings
from controlplane.plane_settings import plane_settings
from controlplane.terminal.command_errors import InputRefused
from controlplane.terminal.log_options import LogOptions


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
    """True if a cluster's topics are this process's own, or `where` has its data topics only."""
    worker_id: str = ""
    """`host:port` in the statuses of connectors that run here."""
    attached: AttachedOptions | None = None
    """Workers that carry out commands; None: this process does, or the log is only read."""

    @property
    def plugin_path(self) -> tuple[str, ...]:
        """Modules and directories whose connectors run here; empty: none runs."""
        return self.reading.settings.plugin_path

    @property
    def commands(self) -> bool:
        """True if commands are executed, that is if this process writes the log."""
        if is_cluster(self.where):
            return self.own
        return self.follow and not self.read_only and is_embedded(self.where)


def check_own(service: ServeOptions, *, attached: bool) -> None:
    """Raise `InputRefused` if another option contradicts `--own`."""
    if not is_cluster(service.where):
        raise InputRefused(
            f"--own keeps the state in Kafka, and {service.where} is no cluster: serve "
            "kafka://BROKER:9092, or leave out --own"
        )
    if service.read_only or not service.follow:
        raise InputRefused("--own runs commands: leave out --read-only and --no-follow")
    if attached:
        raise InputRefused(
            "--own and --connect-url (connect.url) exclude each other: either this process runs "
            "the commands, or workers do"
        )


def writer_settings(
    service: ServeOptions, tell: Logger, loggers: Loggers
) -> tuple[Settings, Surroundings]:
    """Settings and surroundings of a control plane in this process."""
    configuration = service.reading.configuration
    settings = plane_settings(configuration, profile=service.dialect.release, on_kafka=service.own)
    if service.exactly_once:
        settings = msgspec.structs.replace(settings, exactly_once=True)
    return settings, Surroundings(plugins=service.plugins, notices=tell, loggers=loggers)

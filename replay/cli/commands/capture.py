"""`replay capture`: archive logs, once or continuously."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.core.state import Topics, check_topics
from controlplane.logs.dumps import FORMATS
from controlplane.logs.log_factory import DumpForm, OpenOptions
from controlplane.settings import Configuration, SettingsError, WorkerSettings
from controlplane.settings.sources import file_values, flag_values
from controlplane.terminal.exit_codes import INTERRUPTED, REFUSED
from controlplane.terminal.log_options import not_empty
from controlplane.terminal.number_options import Number
from controlplane.terminal.output import note
from controlplane.terminal.shell_completion import complete_files
from replay.capture.secrets import SecretPolicy, dropped_secrets, encrypted_secrets, kept_secrets
from replay.cli.execution.background_compaction import BackgroundCompaction
from replay.cli.execution.captures import CaptureOptions, CaptureSource, check_names, run
from replay.cli.inputs.store import store_named
from replay.cli.options.background import BackgroundOptions, background_options
from replay.cli.options.engines import EngineChoice, engine_options
from replay.cli.options.formats import output_option
from replay.errors import NotCapturable


class _CaptureCommand(click.Command):
    """Command whose error for a missing argument names LOG and ARCHIVE."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; the error for a missing one says what to give."""
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as missing:
            if missing.param is not None and missing.param.param_type_name == "argument":
                raise click.UsageError("give LOG and ARCHIVE", ctx) from None
            raise


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

_KEYS = {
    "config": "config.storage.topic",
    "offsets": "offset.storage.topic",
    "status": "status.storage.topic",
    "commands": "command.storage.topic",
}
"""Settings of a worker that name its topics."""


def _topic_options(command: Any) -> Any:
    for field, topic in reversed(msgspec.structs.asdict(Topics()).items()):
        command = click.option(
            f"--{field}-topic", metavar="NAME", help=f"Topic of {field}. [default: {topic}]"
        )(command)
    return command


@click.command(cls=_CaptureCommand)
@click.argument(
    "sources", metavar="[NAME=]LOG...", nargs=-1, required=True, shell_complete=complete_files
)
@click.argument("archive", shell_complete=complete_files)
@click.option("--once", is_flag=True, help="Archive the present content once, and exit.")
@click.option(
    "--every",
    "pause_s",
    metavar="SECONDS",
    type=Number(0.1),
    default=60,
    help="Seconds between two captures of a live log. [default: 60]",
)
@background_options
@click.option(
    "--secrets",
    "mode",
    type=click.Choice(["keep", "drop", "encrypt"]),
    default="keep",
    help="Keep, drop or encrypt secrets in configs, statuses, commands and headers. "
    "[default: keep]",
)
@click.option(
    "--secrets-key",
    "key",
    type=_FILE,
    metavar="FILE",
    help="File with the key for --secrets encrypt.",
)
@click.option(
    "--worker-properties",
    "worker",
    type=_FILE,
    metavar="FILE",
    help="Read topics, TLS and SASL from a worker's .properties file.",
)
@engine_options
@click.option(
    "--jars",
    type=_FOLDER,
    metavar="FOLDER",
    help="Folder with the jars of Spark's Kafka source, if Spark lacks it.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    callback=not_empty,
    shell_complete=complete_files,
    help="Follow clusters with Structured Streaming, which stores its progress in this folder.",
)
@click.option(
    "--format",
    "dump_format",
    metavar="NAME",
    help=f"Format of a dump: {', '.join(FORMATS)}. [default: detected]",
)
@click.option("--topic", metavar="NAME", help="Topic of a dump without topic names.")
@_topic_options
@output_option()
def capture(  # noqa: PLR0913 - click passes every option by name
    sources: tuple[str, ...],
    archive: str,
    *,
    once: bool,
    pause_s: float,
    background: BackgroundOptions | None,
    mode: str,
    key: Path | None,
    worker: Path | None,
    engine: EngineChoice,
    jars: Path | None,
    checkpoint: str | None,
    dump_format: str | None,
    topic: str | None,
    output: str,
    **topics: str | None,
) -> None:
    """Archive LOGs in ARCHIVE, a folder or s3a://bucket/folder, which is created if needed.

    A LOG is kafka://host:port, an embedded log, or a dump in a format of `controlplane import`.
    NAME is the name of its cluster. The default is the file name, or the id of a Kafka cluster.

    Offsets, gaps, times, headers and aborted records are kept. Archived records are compared and
    not added again. A capture continues where an earlier one was killed. A dump is captured once.
    Other logs are captured repeatedly until Ctrl-C, or once with --once.

    A running capture merges the archive's small files every day (--compact-every), in a process of
    its own. With --retain it also removes old records that later ones have replaced.

    A problem of one LOG, such as a recreated topic, is printed and does not affect the others. Live
    logs are retried, unless the first capture archives no LOG. Exit code 2: a LOG is not archived,
    or not completely.
    """
    if (mode == "encrypt") is not (key is not None):
        raise click.UsageError("--secrets encrypt and --secrets-key FILE belong together")
    how = _opening(worker, topics, DumpForm(dump_format, topic))
    if not engine.is_spark and (jars or checkpoint):
        raise click.UsageError("--jars and --checkpoint are for Spark: give --engine spark, too")
    secrets = _secrets(mode, key, how.topics)
    every = [_source(source) for source in sources]
    check_names(every)
    alone = len(every) == 1
    store = store_named(archive)
    compaction = None if background is None else BackgroundCompaction(store, background)
    repeated_s = None if once else pause_s
    job = CaptureOptions(
        store, how, secrets, output, repeated_s, alone=alone, compaction=compaction
    )
    try:
        if engine.is_spark:
            is_whole = _in_spark(every, job._replace(checkpoint=checkpoint), engine, jars)
        else:
            is_whole = asyncio.run(run(every, job))
    except KeyboardInterrupt:
        note("interrupted: the next capture continues from here")
        raise SystemExit(INTERRUPTED) from None
    if not is_whole:
        raise SystemExit(REFUSED)


def _source(text: str) -> CaptureSource:
    name, equals, where = text.partition("=")
    return CaptureSource(name, where) if equals and "/" not in name else CaptureSource(None, text)


def _opening(worker: Path | None, topics: dict[str, str | None], form: DumpForm) -> OpenOptions:
    """Options for opening logs: aborted records are marked, those of open transactions withheld."""
    flags = [
        (f"--{field}-topic", _KEYS[field], name)
        for field in _KEYS
        if (name := topics[f"{field}_topic"])
    ]
    try:
        configuration = Configuration(flag_values(flags), file_values(worker) if worker else {})
        names = configuration.settings(WorkerSettings).topics
    except SettingsError as error:
        raise NotCapturable(str(error)) from None
    check_topics(names)
    named = frozenset(field for field in _KEYS if topics[f"{field}_topic"])
    options = "--config-topic, --offsets-topic, --status-topic or --worker-properties"
    return OpenOptions(names, configuration, True, form, named, f"name topics with {options}")


def _secrets(mode: str, key: Path | None, topics: Topics) -> SecretPolicy:
    if key is not None:
        return encrypted_secrets(topics, key)
    return dropped_secrets(topics) if mode == "drop" else kept_secrets(topics)


def _in_spark(
    sources: list[CaptureSource], job: CaptureOptions, engine: EngineChoice, jars: Path | None
) -> bool:
    """Run the capture with a Spark session; logs that are no Kafka cluster need none."""
    from replay.cli.execution.spark_captures import with_jars  # noqa: PLC0415 - needs an extra

    with with_jars(engine.where, jars) as session:
        return asyncio.run(run(sources, job._replace(session=session)))

"""`replay capture`: logs into an archive, once or for as long as they go on."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from controlplane.core.state import Topics, check_topics
from controlplane.logs.opening import DumpForm, Opening
from controlplane.settings import Configuration, SettingsError, WorkerSettings
from controlplane.settings.sources import told_by_file, told_by_flags
from controlplane.shell_completion import complete_files
from replay.capture.secrets import Secrets, dropped, encrypted, kept
from replay.cli.codes import INTERRUPTED, REFUSED
from replay.cli.engines import Choice, engine_options
from replay.cli.following import Job, Source, run
from replay.cli.printing import output_option
from replay.cli.stores import store_named
from replay.errors import NotCapturable

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

_KEYS = {
    "config": "config.storage.topic",
    "offsets": "offset.storage.topic",
    "status": "status.storage.topic",
    "commands": "command.storage.topic",
}
"""The settings of a worker that name its topics."""


def _topic_options(command: Any) -> Any:
    for field, topic in reversed(msgspec.structs.asdict(Topics()).items()):
        command = click.option(
            f"--{field}-topic", metavar="NAME", help=f"Topic of {field}. [default: {topic}]"
        )(command)
    return command


@click.command()
@click.argument(
    "sources", metavar="[NAME=]LOG...", nargs=-1, required=True, shell_complete=complete_files
)
@click.argument("archive", shell_complete=complete_files)
@click.option("--once", is_flag=True, help="End when all that is there is archived.")
@click.option(
    "--every",
    "pause_s",
    metavar="SECONDS",
    type=click.FloatRange(0.1),
    default=60,
    help="How long to wait before looking again. [default: 60]",
)
@click.option(
    "--secrets",
    "mode",
    type=click.Choice(["keep", "drop", "encrypt"]),
    default="keep",
    help="What becomes of passwords and the like in configs. [default: keep]",
)
@click.option("--secrets-key", "key", type=_FILE, metavar="FILE", help="The key to encrypt with.")
@click.option(
    "--worker-properties",
    "worker",
    type=_FILE,
    metavar="FILE",
    help="Take topics, TLS and SASL from a worker's .properties.",
)
@engine_options
@click.option(
    "--jars",
    type=_FOLDER,
    metavar="FOLDER",
    help="Where Spark's Kafka source lies, if it lacks it.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    shell_complete=complete_files,
    help="Have Spark follow clusters by Structured Streaming, which keeps there how far it is.",
)
@click.option("--format", "dump_format", metavar="NAME", help="Format of a dump.")
@click.option("--topic", metavar="NAME", help="Topic of a dump that does not name it.")
@_topic_options
@output_option()
def capture(  # noqa: PLR0913 - click passes every option by name
    sources: tuple[str, ...],
    archive: str,
    *,
    once: bool,
    pause_s: float,
    mode: str,
    key: Path | None,
    worker: Path | None,
    engine: Choice,
    jars: Path | None,
    checkpoint: str | None,
    dump_format: str | None,
    topic: str | None,
    output: str,
    **topics: str | None,
) -> None:
    """Archive LOGs in ARCHIVE, a folder or s3a://bucket/folder, which is made if need be.

    A LOG is kafka://host:port, an embedded log, or a dump as `controlplane import` takes it. Its
    cluster is called NAME; without one, after the file, or as a Kafka cluster calls itself.
    Offsets, gaps, times, headers and aborted records are kept as they are. What is archived is
    compared and not added again; where a capture was killed the next one goes on. Dumps end by
    themselves; other logs are looked at again and again, until --once or Ctrl-C.

    What is wrong with one LOG, for instance that a topic was made anew, is told and keeps nobody
    from the others; logs that go on are tried again. Exit code 2: a LOG is not archived, or not all
    of it.
    """
    if (mode == "encrypt") is not (key is not None):
        raise click.UsageError("--secrets encrypt and --secrets-key FILE belong together")
    how = _opening(worker, topics, DumpForm(dump_format, topic))
    if not engine.is_spark and (jars or checkpoint):
        raise click.UsageError("--jars and --checkpoint are for Spark: give --engine spark, too")
    secrets = _secrets(mode, key, how.topics)
    every = [_source(one) for one in sources]
    alone = len(every) == 1
    job = Job(store_named(archive), how, secrets, output, None if once else pause_s, alone=alone)
    try:
        if engine.is_spark:
            is_whole = _in_spark(every, job._replace(checkpoint=checkpoint), engine, jars)
        else:
            is_whole = asyncio.run(run(every, job))
    except KeyboardInterrupt:
        click.echo("interrupted: the next capture goes on where this one was", err=True)
        raise SystemExit(INTERRUPTED) from None
    if not is_whole:
        raise SystemExit(REFUSED)


def _source(text: str) -> Source:
    name, equals, where = text.partition("=")
    return Source(name, where) if equals and "/" not in name else Source(None, text)


def _opening(worker: Path | None, topics: dict[str, str | None], form: DumpForm) -> Opening:
    """How logs are opened: aborted records come marked, what is undecided does not come yet."""
    flags = [
        (f"--{field}-topic", _KEYS[field], name)
        for field in _KEYS
        if (name := topics[f"{field}_topic"])
    ]
    try:
        told = Configuration(told_by_flags(flags), told_by_file(worker) if worker else {})
        names = told.settings(WorkerSettings).topics
    except SettingsError as error:
        raise NotCapturable(str(error)) from None
    check_topics(names)
    named = frozenset(field for field in _KEYS if topics[f"{field}_topic"])
    return Opening(names, told, True, form, named, "topics are named by --config-topic and so on")


def _secrets(mode: str, key: Path | None, topics: Topics) -> Secrets:
    if key is not None:
        return encrypted(topics, key)
    return dropped(topics) if mode == "drop" else kept(topics)


def _in_spark(sources: list[Source], job: Job, engine: Choice, jars: Path | None) -> bool:
    """The same with a session of Spark's; logs that are no cluster need none."""
    from replay.cli.spark_capture import with_jars  # noqa: PLC0415 - not everybody has it

    with with_jars(engine.where, jars) as session:
        return asyncio.run(run(sources, job._replace(session=session)))

"""`replay capture`: logs into an archive, once or for as long as they go on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from controlplane.core.safe_text import count
from controlplane.core.state import Topics, check_topics
from controlplane.logs.log import LogUnavailable
from controlplane.logs.names import is_cluster, path_of
from controlplane.logs.opening import DumpForm, Opened, Opening, open_log
from controlplane.settings import Configuration, SettingsError, WorkerSettings
from controlplane.settings.sources import told_by_file, told_by_flags
from replay.archive.segments import SIZES
from replay.archive.store import Store
from replay.capture.capture import Capture, Captured, Target
from replay.capture.secrets import Secrets, dropped, encrypted, kept
from replay.cli.codes import INTERRUPTED
from replay.cli.engines import Choice, engine_options
from replay.cli.printing import output_option, print_json, say, table
from replay.cli.progress import bar
from replay.cli.stores import store_named
from replay.errors import NotCapturable
from replay.progress import Progress

LIVING = ("kafka", "sqlite")
"""Logs that go on; the others are dumps."""

TOPICS_SHOWN = 5
"""Topics that are not the cluster's own: of a dump worth a word, of a broker with hundreds not."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

_KEYS = {
    "config": "config.storage.topic",
    "offsets": "offset.storage.topic",
    "status": "status.storage.topic",
    "commands": "command.storage.topic",
}
"""The settings of a worker that name its topics."""


class Source(NamedTuple):
    """A log, and what its cluster is called."""

    name: str | None
    where: str


class Job(NamedTuple):
    """Where everything goes, and how."""

    store: Store
    how: Opening
    secrets: Secrets
    output: str
    pause_s: float | None
    """How long to wait before looking again; None: logs are looked at once."""
    session: Any = None
    """Spark's, where it reads the clusters."""
    checkpoint: str | None = None
    """Where Structured Streaming keeps how far it is; None: it is not used."""


def _topic_options(command: Any) -> Any:
    for field, topic in reversed(msgspec.structs.asdict(Topics()).items()):
        command = click.option(
            f"--{field}-topic", metavar="NAME", help=f"Topic of {field}. [default: {topic}]"
        )(command)
    return command


@click.command()
@click.argument("sources", metavar="[NAME=]LOG...", nargs=-1, required=True)
@click.argument("archive")
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
    compared and not added again; where a capture was killed the next one goes on. Exit code 2:
    nothing was added, for instance because a topic was made anew. Dumps end by themselves; other
    logs are looked at again and again, until --once or Ctrl-C.
    """
    if (mode == "encrypt") is not (key is not None):
        raise click.UsageError("--secrets encrypt and --secrets-key FILE belong together")
    how = _opening(worker, topics, DumpForm(dump_format, topic))
    if not engine.is_spark and (jars or checkpoint):
        raise click.UsageError("--jars and --checkpoint are for Spark: give --engine spark, too")
    secrets = _secrets(mode, key, how.topics)
    job = Job(store_named(archive), how, secrets, output, None if once else pause_s)
    every = [_source(one) for one in sources]
    try:
        if engine.is_spark:
            _in_spark(every, job._replace(checkpoint=checkpoint), engine, jars)
        else:
            asyncio.run(_run(every, job))
    except KeyboardInterrupt:
        click.echo("interrupted: the next capture goes on where this one was", err=True)
        raise SystemExit(INTERRUPTED) from None


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


def _in_spark(sources: list[Source], job: Job, engine: Choice, jars: Path | None) -> None:
    """The same with a session of Spark's; logs that are no cluster need none."""
    from replay.cli.spark_capture import with_jars  # noqa: PLC0415 - not everybody has it

    with with_jars(engine.where, jars) as session:
        asyncio.run(_run(sources, job._replace(session=session)))


async def _run(sources: list[Source], job: Job) -> None:
    """Capture all of them once; then those that go on, again and again."""
    streamed = [one for one in sources if job.checkpoint and is_cluster(one.where)]
    done = [(source, *await _capture(source, job)) for source in sources if source not in streamed]
    if done:
        _print([captured for _, captured, _ in done], job.output)
    living = [source for source, _, form in done if form in LIVING]
    await asyncio.gather(_go_on(living, job), _stream(streamed, job))


async def _go_on(living: list[Source], job: Job) -> None:
    while living and job.pause_s is not None:
        await asyncio.sleep(job.pause_s)
        found = [await _again(source, job) for source in living]
        added = [one for one in found if one is not None and one.added]
        if added:
            _print(added, job.output)


async def _stream(sources: list[Source], job: Job) -> None:
    if not sources:
        return
    from replay.cli.spark_capture import Streaming, stream  # noqa: PLC0415 - not everybody has it

    clusters = []
    for source in sources:
        async with _opened(source, job) as opened:
            target = _target(source, opened, job)
        clusters.append(Streaming(source.where, job.how, target))
    told = partial(_print_one, output=job.output)
    assert job.checkpoint is not None
    await stream(job.session, clusters, job.checkpoint, job.pause_s, told)


def _print_one(captured: Captured, output: str) -> None:
    _print([captured], output)


async def _again(source: Source, job: Job) -> Captured | None:
    """What has come since; None: it cannot be reached, which may pass."""
    try:
        captured, _ = await _capture(source, job)
    except LogUnavailable as outage:
        click.echo(f"{source.where}: {outage}; it is tried again", err=True)
        return None
    return captured


async def _capture(source: Source, job: Job) -> tuple[Captured, str]:
    """What one log has, and of which form it is."""
    async with _opened(source, job) as opened:
        target = _target(source, opened, job)
        with bar() as progress:
            return await _made(source, opened, target, job, progress).run(), opened.form


def _made(source: Source, opened: Opened, target: Target, job: Job, progress: Progress) -> Capture:
    """Who captures it: tasks of Spark's a cluster, this process everything else."""
    if job.session is None or opened.form != "kafka":
        return Capture(opened.log, target, goes_on=opened.form in LIVING, progress=progress)
    from replay.capture.spark import SparkCapture  # noqa: PLC0415 - not everybody has it
    from replay.cli.spark_capture import source as spark_source  # noqa: PLC0415

    read_by = spark_source(job.session, source.where, job.how)
    return SparkCapture(opened.log, target, read_by, progress)


@asynccontextmanager
async def _opened(source: Source, job: Job) -> AsyncIterator[Opened]:
    """One log, opened for this once: brokers and files come and go."""
    try:
        opened = await open_log(source.where, job.how)
    except SettingsError as error:
        raise NotCapturable(str(error)) from None
    try:
        for problem in opened.problems:
            click.echo(f"{source.where}: {problem}", err=True)
        yield opened
    finally:
        await opened.log.close()


def _target(source: Source, opened: Opened, job: Job) -> Target:
    return Target(job.store, _name(source, opened), job.how.topics, job.secrets, SIZES)


def _name(source: Source, opened: Opened) -> str:
    """What a cluster is called."""
    if source.name is not None:
        return source.name
    if is_cluster(source.where):
        if opened.cluster_id is None:
            raise NotCapturable(f"{source.where} has no name of its own: write NAME={source.where}")
        return opened.cluster_id
    return path_of(source.where).name.partition(".")[0]


def _print(captured: list[Captured], output: str) -> None:
    if output == "json":
        print_json([_document(one) for one in captured])
        return
    table(("CLUSTER", "READ", "ADDED", "ARCHIVED", "HEAD"), [_row(one) for one in captured])
    for one in captured:
        for gap in one.cluster.gaps:
            say(f"{one.cluster.name}: {gap.sentence}", style="yellow")
        if 0 < len(one.left_out) <= TOPICS_SHOWN:
            topics = ", ".join(one.left_out)
            say(f"{one.cluster.name}: not archived, for no connector names it: {topics}")


def _row(one: Captured) -> tuple[str, ...]:
    records = count(one.records, "record")
    return (one.cluster.name, str(one.read), str(one.added), records, one.cluster.chain.head)


def _document(one: Captured) -> dict[str, Any]:
    return {
        "cluster": one.cluster.name,
        "read": one.read,
        "added": one.added,
        "archived": one.records,
        "ends": one.cluster.ends,
        "head": one.cluster.chain.head,
        "gaps": [gap.sentence for gap in one.cluster.gaps],
        "left_out": list(one.left_out),
    }

"""`replay capture`: logs into an archive, once or for as long as they go on."""

import asyncio
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
from replay.archive.store import Store, open_store
from replay.archive.verify import gap_text
from replay.capture.capture import Capture, Captured, Target
from replay.capture.secrets import Secrets, dropped, encrypted, kept
from replay.cli.printing import output_option, print_json, say, table
from replay.cli.progress import bar
from replay.errors import NotCapturable

INTERRUPTED = 130
"""Exit code: Ctrl-C, as shells count it (128 and the signal's number)."""

LIVING = ("kafka", "sqlite")
"""Logs that go on; the others are dumps."""

TOPICS_SHOWN = 5
"""Topics that are not the cluster's own: of a dump worth a word, of a broker with hundreds not."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

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
    dump_format: str | None,
    topic: str | None,
    output: str,
    **topics: str | None,
) -> None:
    """Archive LOGs in ARCHIVE, a folder or s3://bucket/folder, which is made if need be.

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
    job = Job(open_store(archive), how, _secrets(mode, key, how.topics))
    every = [_source(one) for one in sources]
    try:
        asyncio.run(_run(every, job, output, None if once else pause_s))
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


async def _run(sources: list[Source], job: Job, output: str, pause_s: float | None) -> None:
    """Capture all of them once; then those that go on, again and again."""
    done = [(source, *await _capture(source, job)) for source in sources]
    _print([captured for _, captured, _ in done], output)
    living = [source for source, _, form in done if form in LIVING]
    while living and pause_s is not None:
        await asyncio.sleep(pause_s)
        found = [await _again(source, job) for source in living]
        added = [one for one in found if one is not None and one.added]
        if added:
            _print(added, output)


async def _again(source: Source, job: Job) -> Captured | None:
    """What has come since; None: it cannot be reached, which may pass."""
    try:
        captured, _ = await _capture(source, job)
    except LogUnavailable as outage:
        click.echo(f"{source.where}: {outage}; it is tried again", err=True)
        return None
    return captured


async def _capture(source: Source, job: Job) -> tuple[Captured, str]:
    """One log, opened for this once: brokers and files come and go."""
    try:
        opened = await open_log(source.where, job.how)
    except SettingsError as error:
        raise NotCapturable(str(error)) from None
    try:
        for problem in opened.problems:
            click.echo(f"{source.where}: {problem}", err=True)
        target = Target(job.store, _name(source, opened), job.how.topics, job.secrets, SIZES)
        with bar() as progress:
            living = opened.form in LIVING
            capture = Capture(opened.log, target, goes_on=living, progress=progress)
            return await capture.run(), opened.form
    finally:
        await opened.log.close()


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
            say(f"{one.cluster.name}: {gap_text(*gap)}", style="yellow")
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
        "gaps": [gap_text(*gap) for gap in one.cluster.gaps],
        "left_out": list(one.left_out),
    }

"""Doing one thing with every cluster that was named.

One after the other, so that memory holds one; with `--jobs N` so many at once, each in a process of
its own; with `--engine spark` each in a task of Spark's.

What cannot be read does not keep the others from being told. With `--resume FOLDER` each result is
kept as soon as it is there, under a name that says of what it is: the manifest's hash, which stands
for all that is archived, and everything that decided about it. So what is kept is never stale, and
who is killed or interrupted loses one cluster's work.
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import click
import msgspec

from controlplane.core.file_sentences import unwritable
from controlplane.core.moments import UnknownMoment
from controlplane.core.safe_text import safe
from controlplane.logs.log import LogError
from controlplane.private_files import make_folders, replacing
from replay.cli.codes import INTERRUPTED
from replay.cli.engines import Executing, executing_options
from replay.cli.gaps import tell_gaps
from replay.cli.logs import Asked, Log, opened
from replay.cli.progress import bar
from replay.engine.where import anywhere
from replay.errors import ReplayError
from replay.gaps import Gap

BAD_INPUT = 2
"""Exit code: a cluster cannot be read."""

T = TypeVar("T")

_INPUT = (LogError, UnknownMoment, ReplayError)


class NotKept(ReplayError):
    """A result cannot be written where it is to be kept."""


class Way(NamedTuple):
    """How it is done."""

    resume: Path | None = None
    """Where results are kept."""
    executing: Executing = Executing()


ONE_BY_ONE = Way()


class Job(NamedTuple, Generic[T]):
    """What is to be done with each cluster."""

    name: str
    """In the -ing form, for people who watch: `auditing`."""
    look: Callable[[Log], T]
    """A struct: its fields are everything but the log that decides about the result."""
    result: type[T]
    """A struct, too, to be kept as JSON."""


class Done(NamedTuple, Generic[T]):
    """What came of it, by cluster in the order in which they were named."""

    results: dict[str, T]
    failed: dict[str, str]
    """Why a cluster could not be read: a sentence."""
    gaps: dict[str, list[str]]
    """Where there are such, what of a cluster had been removed before it was archived."""

    @property
    def code(self) -> int:
        """The exit code as far as it is a matter of what could be read."""
        return BAD_INPUT if self.failed else 0

    @property
    def document(self) -> dict[str, Any]:
        """What could not be read, as JSON."""
        return {"failed": self.failed, "gaps": self.gaps}


def fleet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--resume FOLDER`, `--jobs N` and the options of engines; the command gets `way`."""

    @functools.wraps(command)
    def with_way(resume: Path | None, executing: Executing, **arguments: Any) -> Any:
        return command(way=Way(resume, executing), **arguments)

    return click.option(
        "--resume",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Keep what is found of each archived cluster there, and take it from there as long as "
        "the archive has not changed.",
    )(executing_options(with_way))


def for_each(asked: Sequence[Asked], job: Job[T], way: Way = ONE_BY_ONE) -> Done[T]:
    """Do it with every cluster, beneath a bar.

    Where only one was named, what is wrong with it is raised as it is. Ctrl-C ends the command.
    """
    done: Done[T] = Done({}, {}, {})
    named, resume = asked, way.resume
    if way.executing.choice.is_spark:
        named, resume = _found_anywhere(asked, way)
    try:
        with bar() as shown, way.executing.by(shown) as executor:
            shown.begin(job.name, len(named))
            look = functools.partial(_looked_at, job=job, resume=resume)
            found = executor.run(look, named)
            for one, outcomes in zip(named, found, strict=True):
                for outcome in outcomes:
                    _add(done, one.cluster, outcome, alone=len(named) == 1)
                shown.advance(1)
    except KeyboardInterrupt:
        raise _interrupted(len(done.results), len(asked), way.resume) from None
    tell_gaps(done.gaps)
    for cluster, sentence in done.failed.items():
        click.echo(f"Error: {cluster}: {sentence}", err=True)
    return done


class _Outcome(NamedTuple, Generic[T]):
    """What came of one cluster."""

    result: T | None
    error: Exception | None = None
    gaps: tuple[Gap, ...] = ()


def _add(done: Done[T], cluster: str, outcome: _Outcome[T], *, alone: bool) -> None:
    result, error, gaps = outcome
    if gaps:
        done.gaps[cluster] = [one.sentence for one in gaps]
    if result is not None:
        done.results[cluster] = result
    elif error is not None and (alone or isinstance(error, NotKept)):
        raise error
    else:
        done.failed[cluster] = safe(str(error))


def _looked_at(asked: Asked, job: Job[T], resume: Path | None) -> Iterator[_Outcome[T]]:
    """What is carried out for each cluster, wherever that is."""
    try:
        log = opened(asked)
        yield _Outcome(_one(asked, log, job, resume), gaps=log.gaps)
    except _INPUT as error:
        yield _Outcome(None, error)


def _found_anywhere(asked: Sequence[Asked], way: Way) -> tuple[list[Asked], Path | None]:
    """What was named, and where results are kept, as tasks of Spark's find them."""
    if not all(one.archived for one in asked):
        raise click.UsageError("Spark's tasks read archives: `replay capture` makes one of a log")
    resume = way.resume and way.resume.absolute()
    return [one._replace(where=anywhere(one.where)) for one in asked], resume


def _interrupted(done: int, of: int, resume: Path | None) -> SystemExit:
    kept = (
        f"--resume {resume} goes on from there"
        if resume
        else "with --resume FOLDER they would have been kept"
    )
    click.echo(f"interrupted: {done} of {of} clusters were done; {kept}", err=True)
    return SystemExit(INTERRUPTED)


def _one(asked: Asked, log: Log, job: Job[T], resume: Path | None) -> T:
    if resume is None or log.head is None:
        return job.look(log)
    kept = resume / f"{asked.cluster}-{_key(asked, log, job)}.json"
    found = _kept(kept, job)
    if found is None:
        found = job.look(log)
        _keep(kept, found)
    return found


def _key(asked: Asked, log: Log, job: Job[T]) -> str:
    reading = asked.reading
    decides = msgspec.to_builtins(job.look)
    about = (job.name, version("controlplane"), log.head, reading.exactly_once, reading.moment)
    return sha256(json.dumps([*about, decides]).encode()).hexdigest()[:32]


def _kept(path: Path, job: Job[T]) -> T | None:
    """What was kept; None: nothing, or nothing that can be read."""
    try:
        return msgspec.convert(json.loads(path.read_bytes()), job.result, str_keys=True)
    except (OSError, ValueError, RecursionError):
        return None


def _keep(path: Path, found: Any) -> None:
    """Write a result whole or not at all. Names may hold half a surrogate pair, as JSON may."""
    try:
        make_folders(path.parent)
        with replacing(path) as draft:
            kept = json.dumps(msgspec.to_builtins(found, str_keys=True))
            draft.write_text(kept, encoding="ascii")
    except OSError as error:
        raise NotKept(unwritable(path.parent, error)) from None


def worst(codes: Iterable[int]) -> int:
    """The exit code of several things that were done: the worst of theirs."""
    return max(codes, default=0)

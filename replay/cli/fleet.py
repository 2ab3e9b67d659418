"""Doing one thing with every cluster that was named.

One after the other, so that memory holds one; with `--jobs N` so many at once, each in a process of
its own.

What cannot be read does not keep the others from being told. With `--resume FOLDER` each result is
kept as soon as it is there, under a name that says of what it is: the manifest's hash, which stands
for all that is archived, and everything that decided about it. So what is kept is never stale, and
who is killed or interrupted loses one cluster's work.
"""

import functools
import json
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import click
import msgspec

from controlplane.core.moments import UnknownMoment
from controlplane.core.safe_text import safe
from controlplane.logs.log import LogError
from replay.cli.codes import INTERRUPTED
from replay.cli.logs import Asked, Log, opened
from replay.cli.progress import bar
from replay.errors import ReplayError

BAD_INPUT = 2
"""Exit code: a cluster cannot be read."""

T = TypeVar("T")

_INPUT = (LogError, UnknownMoment, ReplayError)


class NotKept(ReplayError):
    """A result cannot be written where it is to be kept."""


class Died(ReplayError):
    """A process that looked at a cluster was ended from outside."""


class Way(NamedTuple):
    """How it is done."""

    resume: Path | None = None
    """Where results are kept."""
    jobs: int = 1
    """Clusters at a time."""


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

    @property
    def code(self) -> int:
        """The exit code as far as it is a matter of what could be read."""
        return BAD_INPUT if self.failed else 0


def fleet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--resume FOLDER` and `--jobs N`; the command gets `way`."""

    @functools.wraps(command)
    def with_way(resume: Path | None, jobs: int, **arguments: Any) -> Any:
        return command(way=Way(resume, jobs), **arguments)

    with_jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Clusters at a time, each in a process and with memory of its own. [default: 1]",
    )(with_way)
    return click.option(
        "--resume",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Keep what is found of each archived cluster there, and take it from there as long as "
        "the archive has not changed.",
    )(with_jobs)


def for_each(asked: Sequence[Asked], job: Job[T], way: Way = ONE_BY_ONE) -> Done[T]:
    """Do it with every cluster, beneath a bar.

    Where only one was named, what is wrong with it is raised as it is. Ctrl-C ends the command.
    """
    done: Done[T] = Done({}, {})
    try:
        with bar() as shown:
            shown.begin(job.name, len(asked))
            for one, outcome in zip(asked, _outcomes(asked, job, way), strict=True):
                _add(done, one.cluster, outcome, alone=len(asked) == 1)
                shown.advance(1)
    except KeyboardInterrupt:
        raise _interrupted(len(done.results), len(asked), way.resume) from None
    for cluster, sentence in done.failed.items():
        click.echo(f"Error: {cluster}: {sentence}", err=True)
    return done


class _Outcome(NamedTuple, Generic[T]):
    """What came of one cluster."""

    result: T | None
    error: Exception | None = None


def _add(done: Done[T], cluster: str, outcome: _Outcome[T], *, alone: bool) -> None:
    result, error = outcome
    if result is not None:
        done.results[cluster] = result
    elif error is not None and (alone or isinstance(error, NotKept)):
        raise error
    else:
        done.failed[cluster] = safe(str(error))


def _outcomes(asked: Sequence[Asked], job: Job[T], way: Way) -> Iterator[_Outcome[T]]:
    """What comes of each cluster, in their order."""
    outcome = functools.partial(_outcome, job=job, resume=way.resume)
    jobs = min(way.jobs, len(asked))
    if jobs == 1:
        yield from map(outcome, asked)
        return
    # Ctrl-C is for us alone: what is under way is finished and kept, what waits never begins.
    started = get_context("spawn")
    with ProcessPoolExecutor(jobs, started, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            yield from pool.map(outcome, asked)
        except BrokenProcessPool:
            raise Died(
                "a process that looked at a cluster was ended, most likely for want of memory: "
                "take fewer --jobs"
            ) from None


def _outcome(asked: Asked, job: Job[T], resume: Path | None) -> _Outcome[T]:
    try:
        return _Outcome(_one(asked, job, resume))
    except _INPUT as error:
        return _Outcome(None, error)


def _interrupted(done: int, of: int, resume: Path | None) -> SystemExit:
    kept = (
        f"--resume {resume} goes on from there"
        if resume
        else "with --resume FOLDER they would have been kept"
    )
    click.echo(f"interrupted: {done} of {of} clusters were done; {kept}", err=True)
    return SystemExit(INTERRUPTED)


def _one(asked: Asked, job: Job[T], resume: Path | None) -> T:
    log = opened(asked)
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
    draft = path.with_suffix(".draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(msgspec.to_builtins(found, str_keys=True)), encoding="ascii")
        draft.replace(path)
    except OSError as error:
        raise NotKept(f"{path.parent} cannot be written ({error.strerror}): check it") from None


def worst(codes: Iterable[int]) -> int:
    """The exit code of several things that were done: the worst of theirs."""
    return max(codes, default=0)

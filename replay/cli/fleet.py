"""Doing one thing with every cluster that was named: one after the other, so that memory holds one.

What cannot be read does not keep the others from being told. With `--resume FOLDER` each result is
kept as soon as it is there, under a name that says of what it is: the manifest's hash, which stands
for all that is archived, and everything that decided about it. So what is kept is never stale, and
who is killed or interrupted loses one cluster's work.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import click
import msgspec

from controlplane.core.moments import UnknownMoment
from controlplane.core.safe_text import safe
from controlplane.logs.log import LogError
from replay.cli.logs import Asked, Log, opened
from replay.cli.progress import bar
from replay.errors import ReplayError

BAD_INPUT = 2
"""Exit code: a cluster cannot be read."""

INTERRUPTED = 130
"""Exit code: Ctrl-C, as shells count it (128 and the signal's number)."""

T = TypeVar("T")

_INPUT = (LogError, UnknownMoment, ReplayError)


class NotKept(ReplayError):
    """A result cannot be written where it is to be kept."""


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


def resume_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--resume FOLDER`; the command gets `resume`."""
    return click.option(
        "--resume",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Keep what is found of each archived cluster there, and take it from there as long as "
        "the archive has not changed.",
    )(command)


def for_each(asked: Sequence[Asked], job: Job[T], resume: Path | None = None) -> Done[T]:
    """Do it with every cluster, beneath a bar.

    Where only one was named, what is wrong with it is raised as it is. Ctrl-C ends the command.
    """
    done: Done[T] = Done({}, {})
    try:
        with bar() as shown:
            shown.begin(job.name, len(asked))
            for one in asked:
                _add(done, one, job, resume, alone=len(asked) == 1)
                shown.advance(1)
    except KeyboardInterrupt:
        raise _interrupted(len(done.results), len(asked), resume) from None
    for cluster, sentence in done.failed.items():
        click.echo(f"Error: {cluster}: {sentence}", err=True)
    return done


def _add(done: Done[T], one: Asked, job: Job[T], resume: Path | None, *, alone: bool) -> None:
    """What comes of one cluster."""
    try:
        done.results[one.cluster] = _one(one, job, resume)
    except _INPUT as error:
        if alone or isinstance(error, NotKept):
            raise
        done.failed[one.cluster] = safe(str(error))


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

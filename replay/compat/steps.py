"""What has to be done about a situation, as commands that one can run.

`controlplane` speaks to whom `CONTROLPLANE_CLUSTER` names, Kafka's own workers among them. Where a
worker has no request for something the record is written with kcat: `BROKERS` names the brokers.
A record that lies in the log is copied from there, so that no secret has to be shown.
"""

import re
import shlex
from enum import Enum

import msgspec

from controlplane.core import java, javajson
from controlplane.core.entry import Entry, Position
from controlplane.core.profiles import Profile
from controlplane.core.safe_text import safe

BROKERS = '"$BROKERS"'

_ENDS = frozenset("\t\n\0")
"""What ends a key, a record, or the argument of a program."""


class When(Enum):
    """When something is to be done."""

    BEFORE = "before"
    """While all workers are of the release that is left."""
    DURING = "during"
    """As each worker is changed."""
    AFTER = "after"
    """When all workers are of the new release."""


class Step(msgspec.Struct, frozen=True):
    """One thing to do."""

    when: When
    command: str
    """A line for a shell; a comment (`# …`) where it is a setting or somebody's decision."""
    why: str


def verb(word: str, connector: str, *more: str) -> str:
    """`controlplane stop orders`, safe for a shell whatever the connector is called."""
    end = ("--",) if connector.startswith("-") else ()
    return shlex.join(["controlplane", *word.split(), *more, *end, connector])


def quieted(connector: str, release: Profile) -> str:
    """Let nothing of a connector write: stopped, or paused where workers know no stop.

    It waits until the tasks are done: they commit their offsets once more when they end.
    """
    if not release.target_states:
        return f"# stop all workers: {release.release} knows no other way to keep a connector quiet"
    return verb("stop" if release.stops else "pause", connector, "--wait")


def rerun(connector: str) -> str:
    """Let a paused connector run until its tasks do, so that they are committed; then no longer."""
    return f"{verb('resume', connector, '--wait')}; {verb('pause', connector)}"


def copied(positions: tuple[Position, ...]) -> str:
    """Append records of a log once more, in this order."""
    return " && ".join(map(_copied, positions))


def again(committed: Entry | None, wrong: Entry) -> str:
    """Append what was committed last under the key of a record; a tombstone where nothing was."""
    if committed is not None and committed.value is not None:
        return copied((committed.position,))
    return written(wrong.topic, wrong.partition, java.decode_key(wrong.key or b""), "")


def _copied(place: Position) -> str:
    where = f"-b {BROKERS} -t {shlex.quote(place.topic)} -p {place.partition}"
    taken = rf"kcat -C {where} -o {place.offset} -c 1 -e -q -f '%k\t%s\n'"
    return rf"{taken} | kcat -P {where} -K '\t'"


def copied_topic(source: str, target: str, through: str) -> str:
    """Append what is in a topic to another one, where Kafka's partitioner would put it.

    Its lines go `through` a program that takes and gives them.
    """
    taken = rf"kcat -C -b {BROKERS} -t {shlex.quote(source)} -o beginning -e -q -f '%k\t%s\n'"
    put = rf"kcat -P -b {BROKERS} -t {shlex.quote(target)} -K '\t' -Z"
    return f"{taken} | {through} | {put} -X topic.partitioner=murmur2_random"


def offsets_of(connector: str) -> str:
    """Of lines of kcat's, lets those pass whose key is an offset of a source: `["orders",{…}]`."""
    key = javajson.encode([connector]).decode("utf-8", "replace").removesuffix("]")
    return "grep -a " + shlex.quote("^" + _PATTERN.sub(r"\\\g<0>", f"{key},"))


_PATTERN = re.compile(r"[\\.*\[^$]")
"""What means something else than itself to grep."""

UNWRAPPED = r"""perl -pe 's/(^|\t)\{"schema":.*?,"payload":(.*?)\}(?=\t|$)/$1$2/g'"""
"""Takes Connect's envelope from keys and values; not a letter of what is in it becomes another."""


def compacted_topic(topic: str, partitions: int) -> str:
    """Create a topic as workers want theirs."""
    return (
        f"kafka-topics.sh --bootstrap-server {BROKERS} --create --topic {shlex.quote(topic)} "
        f"--partitions {partitions} --config cleanup.policy=compact"
    )


def written(topic: str, partition: int, key: str, value: str) -> str:
    """Append one record; an empty value is a tombstone.

    kcat takes a tab for the end of the key and a line for a record: Connect's own names have
    neither, and for those of strangers no line can be given.
    """
    if not _ENDS.isdisjoint(key):
        return f"# write {value or 'a tombstone'} to {safe(topic)}-{partition} under {safe(key)}"
    text = shlex.quote(rf"{key}") + " " + shlex.quote(value)
    tombstone = " -Z" if not value else ""
    where = f"-b {BROKERS} -t {shlex.quote(topic)} -p {partition}"
    return rf"printf '%s\t%s\n' {text} | kcat -P {where} -K '\t'{tombstone}"

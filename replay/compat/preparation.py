"""Preparation steps as shell commands.

`controlplane` sends requests to the workers in `CONTROLPLANE_CLUSTER`, which may be Java workers.
Without a suitable request, kcat writes the record to `BROKERS`. A record of the log is copied from
its position, so no secret is printed.
"""

import re
import shlex
from enum import Enum

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.core.java import json_codec
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.safe_text import safe

BROKERS = '"$BROKERS"'

_ENDS = frozenset("\t\n\0")
"""Characters that end a key, a record, or a program's argument, in `append_command`."""


class StepTime(Enum):
    """Phase of a release change in which a preparation step is taken."""

    BEFORE = "before"
    """While all workers run the old release."""
    DURING = "during"
    """While workers are replaced."""
    AFTER = "after"
    """Once all workers run the new release."""


class PreparationStep(msgspec.Struct, frozen=True):
    """Preparation step: time, command and reason."""

    when: StepTime
    command: str
    """Shell command, or a comment (`# …`) for a setting or a manual decision."""
    why: str


def verb(word: str, connector: str, *more: str) -> str:
    """Command of `controlplane` about a connector, quoted for a shell.

    Example: `verb("stop", "orders")` returns "controlplane stop orders".
    """
    end = ("--",) if connector.startswith("-") else ()
    return shlex.join(["controlplane", *word.split(), *more, *end, connector])


def quieted(connector: str, release: Profile) -> str:
    """Command that keeps a connector from writing: stop, or pause where stop is unknown.

    The command waits for the end of the tasks, because they commit their offsets once more.
    """
    if not release.target_states:
        return f"# stop all workers: {release.release} can neither pause nor stop a connector"
    return verb("stop" if release.stops else "pause", connector, "--wait")


def rerun(connector: str) -> str:
    """Command that runs a paused connector until its tasks are committed, then pauses it again."""
    return f"{verb('resume', connector, '--wait')}; {verb('pause', connector)}"


def copied(positions: tuple[Position, ...]) -> str:
    """Command that appends records of a log again, in this order; an empty value is a tombstone."""
    return " && ".join(map(_copied, positions))


def again(committed: Entry | None, wrong: Entry) -> str:
    """Command that writes the last committed value of a key again; a tombstone if there is none."""
    if committed is not None and committed.value is not None:
        return copied((committed.position,))
    return append_command(wrong.topic, wrong.partition, json_codec.decode_key(wrong.key or b""), "")


def _copied(place: Position) -> str:
    where = f"-b {BROKERS} -t {shlex.quote(place.topic)} -p {place.partition}"
    # JSON may have tabs and line breaks between its parts, but never the ASCII characters 0x1e and
    # 0x1f.
    taken = rf"kcat -C {where} -o {place.offset} -c 1 -e -q -f '%k\x1f%s'"
    return rf"{taken} | kcat -P {where} -K '\x1f' -D '\x1e' -Z"


def copied_topic(source: str, target: str, through: str) -> str:
    """Command that copies a topic to another one, with Kafka's partitioner.

    Lines pass `through` a filter program.
    """
    taken = rf"kcat -C -b {BROKERS} -t {shlex.quote(source)} -o beginning -e -q -f '%k\t%s\n'"
    put = rf"kcat -P -b {BROKERS} -t {shlex.quote(target)} -K '\t' -Z"
    return f"{taken} | {through} | {put} -X topic.partitioner=murmur2_random"


def offsets_of(connector: str) -> str:
    """Filter for kcat's lines that selects the offsets of a source: `["orders",{…}]`."""
    key = json_codec.encode([connector]).decode("utf-8", "replace").removesuffix("]")
    return "grep -a " + shlex.quote("^" + _PATTERN.sub(r"\\\g<0>", f"{key},"))


_PATTERN = re.compile(r"[\\.*\[^$]")
"""Special characters of grep."""

UNWRAPPED = r"""perl -pe 's/(^|\t)\{"schema":.*?,"payload":(.*?)\}(?=\t|$)/$1$2/g'"""
"""Filter that removes Connect's schema envelope from keys and values, and keeps their content."""


def compacted_topic(topic: str, partitions: int) -> str:
    """Command that creates a compacted topic with the settings of workers."""
    return (
        f"kafka-topics.sh --bootstrap-server {BROKERS} --create --topic {shlex.quote(topic)} "
        f"--partitions {partitions} --config cleanup.policy=compact"
    )


def append_command(topic: str, partition: int, key: str, value: str) -> str:
    """Command that appends one record; an empty value is a tombstone.

    kcat ends a key at a tab and a record at a line break. If the key contains such a character, the
    step is a comment.
    """
    if not _ENDS.isdisjoint(key):
        return f"# write {value or 'a tombstone'} to {safe(topic)}-{partition} under {safe(key)}"
    text = shlex.quote(rf"{key}") + " " + shlex.quote(value)
    tombstone = " -Z" if not value else ""
    where = f"-b {BROKERS} -t {shlex.quote(topic)} -p {partition}"
    return rf"printf '%s\t%s\n' {text} | kcat -P {where} -K '\t'{tombstone}"

"""Points in time as text: a record, a time, or a vector of end offsets.

This module parses and formats the text; `order.ends_at` finds the place in a log.
"""

import json
import re
from datetime import UTC, datetime, timedelta

import msgspec

from controlplane.core.entry import Position
from controlplane.core.state import Topics

MOMENT_LENGTH = 4_096
"""Maximum characters of a moment: enough for a vector over hundreds of partitions."""

LAST_OFFSET = 2**63 - 1
"""Greatest offset: Kafka stores it in a Java long."""

PARTITION_DIGITS = 9
"""Maximum digits of a partition number: every such number fits into Kafka's 32 bits."""

TIME_DIGITS = 15
"""Maximum digits of a time in ms: the end of the year 9999 has 15."""

TEXT_SHOWN = 60
"""Maximum characters of a text that a message quotes."""

CLOCKS_DIFFER_MS = 10_000
"""Tolerance for a client's clock that runs ahead. Only a time beyond it counts as the future."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)

KAFKA_IS_YOUNGER_MS = (datetime(2000, 1, 1, tzinfo=UTC) - EPOCH) // MS
"""The year 2000. A smaller number is probably not a time in ms: no Kafka record is that old."""

LAST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // MS
"""Latest time that is shown as a date: `datetime` ends with the year 9999."""

_POSITION = re.compile(
    rf"(.+)@(?:(\d{{1,{PARTITION_DIGITS}}}):)?(\d{{1,{MOMENT_LENGTH}}})", re.ASCII
)
_VECTOR_EXAMPLE = """'{"connect-configs":[57],"connect-status":[41,0,12]}'"""
_VALID_FORMS = "2026-11-20T12:00:00Z, 1795214808118 (ms), config@57 or a vector of end offsets"


UNKNOWN_TIME = "unknown"


class UnknownMoment(ValueError):
    """The text names no point in time of this log. The message gives the reason or valid forms."""


def check_form(moment: str) -> None:
    """Check the form of a moment, before a log is read.

    Raises:
        UnknownMoment: it is too long, or neither a record, a time nor a vector.
    """
    check_length(moment)
    if is_vector(moment):
        read_vector(moment)
    elif "@" in moment:
        read_position(moment, Topics())
    else:
        read_time_ms(moment)


def is_vector(text: str) -> bool:
    """True if a text is meant as a vector of end offsets."""
    return text.lstrip().startswith("{")


def check_length(moment: str) -> None:
    """Check the length of a moment.

    Raises:
        UnknownMoment: it is too long.
    """
    if len(moment) > MOMENT_LENGTH:
        raise UnknownMoment(f"a moment has at most {MOMENT_LENGTH} characters")


def read_vector(text: str) -> dict[str, list[int]]:
    """Parse end offsets by topic and partition: `{"connect-configs":[57]}`.

    Raises:
        UnknownMoment: the text is no such JSON, or names a topic twice.
    """
    try:
        vector = msgspec.json.decode(text, type=dict[str, list[int]])
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnknownMoment(
            f"not a vector of end offsets like {_VECTOR_EXAMPLE}: {error}"
        ) from None
    _check_each_topic_once(text)
    return vector


def _check_each_topic_once(vector: str) -> None:
    """Raise `UnknownMoment` if a valid vector repeats a topic: msgspec takes the last list."""
    topics: set[str] = set()
    for topic, _ in json.loads(vector, object_pairs_hook=list):
        if topic in topics:
            raise UnknownMoment(
                f"the vector names the topic {quoted(topic)} twice: give its end offsets once"
            )
        topics.add(topic)


def read_position(text: str, topics: Topics) -> Position:
    """Parse a record's position: `config@57`, or `status@2:41` in partition 2.

    The topic may also have its full name.

    Raises:
        UnknownMoment: the text has another form, or the offset is too great.
    """
    match = _POSITION.fullmatch(text)
    if match is None:
        raise UnknownMoment(
            f"{quoted(text)} is no position: write it like config@57 or status@2:41"
        )
    name, partition, offset = match[1], int(match[2] or 0), int(match[3])
    check_offset(offset)
    topic = getattr(topics, name) if name in topics.__struct_fields__ else name
    return Position(topic, partition, offset)


def check_offset(offset: int) -> None:
    """Check that Kafka can store an offset.

    Raises:
        UnknownMoment: it is too great.
    """
    if offset > LAST_OFFSET:
        digits = str(offset)
        shown = digits if len(digits) <= TEXT_SHOWN else f"{digits[: TEXT_SHOWN - 1]}…"
        raise UnknownMoment(f"offset {shown} is too great: offsets end at {LAST_OFFSET}")


def position_text(position: Position, topics: Topics | None = None) -> str:
    """Format a record's position for `read_position`: `config@57`, `offsets@3:120`.

    Partition 0 is omitted. Without `topics` the topic has its full name.
    """
    name = position.topic if topics is None else topics.short(position.topic)
    partition = f"{position.partition}:" if position.partition else ""
    return f"{name}@{partition}{position.offset}"


def read_time_ms(text: str) -> int:
    """Parse a time to ms since 1970: ISO 8601 (UTC by default), or the number of ms.

    Raises:
        UnknownMoment: the text has another form.
    """
    if re.fullmatch(r"\d+", text, re.ASCII):
        return _number_ms(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UnknownMoment(
            f"{quoted(text)} is no point in time: write it like {_VALID_FORMS}"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // MS


def check_not_future(moment: str, now_ms: int) -> None:
    """Refuse a future time: records may still be written before it.

    Raises:
        UnknownMoment: the time is in the future, or the text has another form.
    """
    if "@" not in moment and not is_vector(moment):
        time_ms = read_time_ms(moment)
        if time_ms > now_ms + CLOCKS_DIFFER_MS:
            raise UnknownMoment(
                f"{quoted(moment)} is in the future: give a time up to now, {time_text(now_ms)}"
            )


def _number_ms(text: str) -> int:
    """Parse digits as ms since 1970; raises `UnknownMoment` beyond `LAST_MS`."""
    if len(text) > TIME_DIGITS or int(text) > LAST_MS:
        raise UnknownMoment(
            f"{quoted(text)} is no time in milliseconds: times end with the year 9999"
        )
    return int(text)


def time_text(time_ms: int) -> str:
    """Format a time for people and `read_time_ms`: `2026-11-20T12:00:00.000Z`, UTC.

    A negative time is `UNKNOWN_TIME`: logs without times have -1. A time after `LAST_MS` is shown
    in ms.
    """
    if time_ms < 0:
        return UNKNOWN_TIME
    if time_ms > LAST_MS:
        return f"{time_ms} ms"
    return (EPOCH + time_ms * MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def too_early(text: str, time_ms: int, first_ms: int) -> UnknownMoment:
    """Error for a time before the first record; suggests the likely meaning of a small number."""
    if text.isdigit() and time_ms < KAFKA_IS_YOUNGER_MS:
        day = time_text(time_ms)[:10]
        return UnknownMoment(
            f"{text} is {day} in milliseconds, before the first record: "
            f"did you mean {_likely_meaning(text)}?"
        )
    return UnknownMoment(f"{quoted(text)} is before the first record ({time_text(first_ms)})")


def _likely_meaning(digits: str) -> str:
    """Likely meaning of a number: seconds, a day without hyphens, an offset."""
    if int(digits) * 1_000 >= KAFKA_IS_YOUNGER_MS:
        return f"seconds (then write {digits}000), or a record such as config@57"
    day = re.fullmatch(r"(2\d\d\d)(\d\d)(\d\d)", digits, re.ASCII)
    return "-".join(day.groups()) if day else f"config@{int(digits)}"


def quoted(text: str) -> str:
    """A text as messages quote it, shortened if too long."""
    return repr(text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…")

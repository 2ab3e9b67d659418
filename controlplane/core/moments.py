"""Points in time as people write them: a record, a time, or a vector of end offsets.

Only the text is looked at here; `order.ends_at` finds the place in a log.
"""

import re
from datetime import UTC, datetime, timedelta

import msgspec

from controlplane.core.entry import Position
from controlplane.core.state import Topics

MOMENT_LENGTH = 4_096
"""Characters of a moment: room for a vector over hundreds of partitions, none for a flood."""

OFFSET_DIGITS = 18
"""Digits of an offset: all that surely fit into 64 bits, and no flood for `int` to choke on."""

PARTITION_DIGITS = 9
"""Digits of a partition's number, of which Kafka keeps 32 bits."""

TIME_DIGITS = 15
"""Digits of a time in ms: it ends with the year 9999."""

TEXT_SHOWN = 60
"""Characters of a text that a message repeats, so that it stays one sentence."""

CLOCKS_DIFFER_MS = 10_000
"""How far the clock of an asker may be ahead of ours before his present is taken for the future."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)

KAFKA_IS_YOUNGER_MS = (datetime(2000, 1, 1, tzinfo=UTC) - EPOCH) // MS
"""A smaller number is hardly meant as a time in ms: no record of Kafka is as old."""

LAST_MS = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // MS

_POSITION = re.compile(
    rf"(.+)@(?:(\d{{1,{PARTITION_DIGITS}}}):)?(\d{{1,{OFFSET_DIGITS}}})", re.ASCII
)
_VECTOR = """'{"connect-configs":[57],"connect-status":[41,0,12]}'"""
_FORMS = "2026-11-20T12:00:00Z, 1795214808118 (ms), config@57 or a vector of end offsets"


UNKNOWN_TIME = "unknown"


class UnknownMoment(ValueError):
    """Not a point in time that this log has. The message says what one looks like."""


def is_vector(text: str) -> bool:
    """Whether a text is meant as a vector of end offsets."""
    return text.lstrip().startswith("{")


def check_length(moment: str) -> None:
    """Refuse what is too long for a moment.

    Raises:
        UnknownMoment: it is.
    """
    if len(moment) > MOMENT_LENGTH:
        raise UnknownMoment(f"a moment has at most {MOMENT_LENGTH} characters")


def read_vector(text: str) -> dict[str, list[int]]:
    """End offsets by topic and partition: `{"connect-configs":[57]}`.

    Raises:
        UnknownMoment: it is no such JSON.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, list[int]])
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnknownMoment(f"not a vector of end offsets like {_VECTOR}: {error}") from None


def read_position(text: str, topics: Topics) -> Position:
    """A record: `config@57`, or `status@2:41` in partition 2; or a topic by its full name.

    Raises:
        UnknownMoment: it is no such text.
    """
    match = _POSITION.fullmatch(text)
    if match is None:
        raise UnknownMoment(f"{shown(text)} is no position: write it like config@57 or status@2:41")
    name, partition, offset = match[1], int(match[2] or 0), int(match[3])
    topic = getattr(topics, name) if name in topics.__struct_fields__ else name
    return Position(topic, partition, offset)


def position_text(position: Position, topics: Topics | None = None) -> str:
    """A record's position as `read_position` takes it: `config@57`, `offsets@3:120`.

    Partition 0 is not written. Without `topics` the topic has its full name.
    """
    name = position.topic if topics is None else topics.short(position.topic)
    partition = f"{position.partition}:" if position.partition else ""
    return f"{name}@{partition}{position.offset}"


def read_time_ms(text: str) -> int:
    """A time in ms since 1970: ISO 8601 (UTC unless it says otherwise), or the number itself.

    Raises:
        UnknownMoment: it is no such text.
    """
    if re.fullmatch(r"\d+", text, re.ASCII):
        return _number_ms(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UnknownMoment(f"{shown(text)} is no point in time: write it like {_FORMS}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - EPOCH) // MS


def check_come(moment: str, now_ms: int) -> None:
    """Refuse a time that has not come: records may still be written before it.

    Raises:
        UnknownMoment: it is in the future.
    """
    if "@" not in moment and not is_vector(moment):
        time_ms = read_time_ms(moment)
        if time_ms > now_ms + CLOCKS_DIFFER_MS:
            raise UnknownMoment(
                f"{shown(moment)} is in the future: the log reaches to now, {time_text(now_ms)}"
            )


def _number_ms(text: str) -> int:
    if len(text) > TIME_DIGITS or int(text) > LAST_MS:
        raise UnknownMoment(f"{shown(text)} is no time in milliseconds: it ends with the year 9999")
    return int(text)


def time_text(time_ms: int) -> str:
    """A time as people read it and `read_time_ms` takes it: `2026-11-20T12:00:00.000Z`, UTC.

    A negative time is unknown: a log that keeps none says -1.
    """
    if time_ms < 0:
        return UNKNOWN_TIME
    if time_ms > LAST_MS:
        return f"{time_ms} ms"
    return (EPOCH + time_ms * MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def too_early(text: str, time_ms: int, first_ms: int) -> UnknownMoment:
    """What to say of a time before the first record: a small number was meant as something else."""
    if text.isdigit() and time_ms < KAFKA_IS_YOUNGER_MS:
        day = time_text(time_ms)[:10]
        return UnknownMoment(
            f"{text} is {day} in milliseconds, before the first record: "
            f"did you mean {_likelier(text)}?"
        )
    return UnknownMoment(f"{shown(text)} is before the first record ({time_text(first_ms)})")


def _likelier(digits: str) -> str:
    """What else a number may have meant: seconds, a day without its hyphens, an offset."""
    if int(digits) * 1_000 >= KAFKA_IS_YOUNGER_MS:
        return f"seconds (then write {digits}000), or a record such as config@57"
    day = re.fullmatch(r"(2\d\d\d)(\d\d)(\d\d)", digits, re.ASCII)
    return "-".join(day.groups()) if day else f"config@{int(digits)}"


def shown(text: str) -> str:
    """A text as a message repeats it: quoted, and not the whole of a flood."""
    return repr(text if len(text) <= TEXT_SHOWN else text[: TEXT_SHOWN - 1] + "…")

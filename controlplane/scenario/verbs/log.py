"""Verbs about records: `given` appends, `log` prints, `compact` runs the log cleaner."""

import re
from collections.abc import Iterator, Sequence

from controlplane.core.entry import Position
from controlplane.core.moments import position_text
from controlplane.core.state import Topics
from controlplane.scenario import transcript
from controlplane.scenario.notation import bytes_of, key_text_of
from controlplane.scenario.scenario_file import ScenarioStep
from controlplane.scenario.verbs import step_options
from controlplane.scenario.verbs.step_options import BadStep
from controlplane.scenario.world import ForeignWriter, World

_RECORD = re.compile(r"(\S.*?) {2,}(\S.*?)\s*")
_OPTIONS = ("topic", "partition", "clock", "transaction")


async def given(world: World, step: ScenarioStep) -> list[str]:
    r"""Append raw records, one per line: key, two or more spaces, value.

    Nothing is checked or completed: the log holds these bytes. `∅` is null (a tombstone, or no
    key), `(empty)` no bytes at all, `\xNN` one byte; all else is itself. Records go where Kafka's
    partitioner puts them, or to `partition=`. `clock=-5s` means a writer whose clock is behind.
    With `transaction=aborted` or `committed` they are one transaction; its marker takes an offset.
    `topic=` is a connector's own offsets topic.

        given config
        connector-orders     {"properties":{"tasks.max":"2"}}
        target-state-orders  ∅
        ----
        config@0..1
    """
    step_options.started(world)
    step_options.only(step, words=1, options=_OPTIONS, body=True)
    topic = step_options.topic(step, world)
    if not step.body:
        raise BadStep("no records: write one per line, key, two spaces, value")
    records = [_record(line, number) for number, line in enumerate(step.body, start=1)]
    if "topic" in step.options:
        await world.add_topic(topic)
    positions = await world.write(topic, records, await _writer_options(world, step, topic))
    return list(_position_lines(positions, step.options.get("transaction", ""), world.topics))


def _record(line: str, number: int) -> tuple[bytes | None, bytes | None]:
    match = _RECORD.fullmatch(line)
    if match is None:
        raise BadStep("not a record: write key, two spaces, value (∅ for a tombstone)", number)
    return bytes_of(match[1]), bytes_of(match[2])


async def _writer_options(world: World, step: ScenarioStep, topic: str) -> ForeignWriter:
    transaction = step.options.get("transaction", "")
    if transaction:
        step_options.choice(step, "transaction", ("committed", "aborted"), "")
    count = (await world.log.topics())[topic]
    partition = step_options.number(step, "partition", 0) if "partition" in step.options else None
    if partition is not None and partition >= count:
        raise BadStep(f"partition={partition}: the topic has {count}, numbered from 0")
    return ForeignWriter(partition, step_options.duration_ms(step, "clock"), transaction)


def _position_lines(
    positions: Sequence[Position], transaction: str, topics: Topics
) -> Iterator[str]:
    """Yield a line per partition and per transaction marker."""
    for partition in sorted({place.partition for place in positions}):
        written = [place for place in positions if place.partition == partition]
        first, last = written[0], written[-1]
        yield transcript.span(first, last.offset, topics)
        if transaction:
            marker = last._replace(offset=last.offset + 1)
            yield f"{position_text(marker, topics)}  marker: {transaction}"


async def log(world: World, step: ScenarioStep) -> list[str]:
    """Print the records of a topic from a log offset on, in the order in which they are folded.

    With several partitions `from=` holds for each of them.

        log config from=4
        ----
        config@4  commit-orders         {"tasks":0}
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("from", "topic"))
    topic, start = step_options.topic(step, world), step_options.number(step, "from", 0)
    entries = [
        entry for entry in await world.entries() if entry.topic == topic and entry.offset >= start
    ]
    return transcript.entries(entries, world.topics)


async def compact(world: World, step: ScenarioStep) -> list[str]:
    """Keep the last record of each key, and print the removed records.

    Kafka may do so at any time. Tombstones stay, unless `tombstones=gone`: Kafka removes them after
    `delete.retention.ms`, a day. Records of aborted transactions always go.

        compact config
        ----
        config@1  task-orders-0
    """
    step_options.started(world)
    step_options.only(step, words=1, options=("tombstones", "topic"))
    topic = step_options.topic(step, world)
    if topic not in await world.log.topics():
        raise BadStep(f"there is no topic {topic} yet")
    tombstones = step_options.choice(step, "tombstones", ("kept", "gone"), "kept") == "gone"
    before = [entry for entry in await world.entries() if entry.topic == topic]
    await world.log.compact(topic, tombstones=tombstones)
    kept = {entry.position for entry in await world.entries()}
    rows = [
        (position_text(entry.position, world.topics), key_text_of(entry.key))
        for entry in before
        if entry.position not in kept
    ]
    return transcript.aligned(rows) if rows else [transcript.NONE]

"""A question about Kafka's stores: a small log, and a function that finds the answer."""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.core.entry import Entry
from tests.core.logs import Pair, raw
from tests.oracle.case import TOPICS, Case
from tests.oracle.comparable_answers import ComparableAnswer
from tests.oracle.edges_of_classes import KafkaQuestion

AnswerLookup = Callable[[ComparableAnswer], str]

SHORT_NAMES = {
    "NullPointerException": "NPE",
    "IllegalArgumentException": "IAE",
    "StackOverflowError": "stack overflow",
}


BATCH = 3


class Probe(NamedTuple):
    """A question. `log` describes the records in words; `look` finds the short answer."""

    log: str
    case: Case
    look: AnswerLookup


class Edge(NamedTuple):
    """One edge case: its number, its text, and the proof by Kafka's classes or another source.

    `probes` run the stores on logs, `questions` call other classes of Kafka.
    """

    number: int
    says: str
    probes: tuple[Probe, ...] = ()
    note: str = ""
    """Evidence, if the three stores cannot show the edge; else empty."""
    questions: tuple[KafkaQuestion, ...] = ()


# --- logs -----------------------------------------------------------------------------------


def _entries(topic: str, pairs: tuple[Pair, ...]) -> tuple[Entry, ...]:
    return tuple(
        Entry(topic, 0, offset, 0, raw(key), raw(value))
        for offset, (key, value) in enumerate(pairs)
    )


def config(*pairs: Pair) -> Case:
    """A case of config records, read by a worker that has started."""
    return Case(_entries(TOPICS.config, pairs))


def replayed(*pairs: Pair) -> Case:
    """A case of config records, read while a worker starts."""
    return Case(_entries(TOPICS.config, pairs), len(pairs))


def polled(*pairs: Pair) -> Case:
    """A case of config records, read by a running worker in batches of three."""
    return Case(_entries(TOPICS.config, pairs), batch=(BATCH,))


def offsets_polled(*pairs: Pair) -> Case:
    """A case of records of the worker's offsets topic, read in batches of three."""
    return Case(_entries(TOPICS.offsets, pairs), batch=(BATCH,))


def status(*pairs: Pair) -> Case:
    """Return a case of records of the status topic."""
    return Case(_entries(TOPICS.status, pairs))


def offsets(*pairs: Pair) -> Case:
    """A case of records of the worker's offsets topic."""
    return Case(_entries(TOPICS.offsets, pairs))


CONNECTOR: Pair = ("connector-a", '{"properties":{"k":"v"}}')


def task(number: int, name: str = "a") -> Pair:
    """Return the record of a task config."""
    return f"task-{name}-{number}", '{"properties":{}}'


def commit(count: object, name: str = "a") -> Pair:
    """A task commit; the count has its spelling in the JSON."""
    return f"commit-{name}", f'{{"tasks":{count}}}'


def target(content: str, name: str = "a") -> Pair:
    """Return the record of a target state."""
    return f"target-state-{name}", content


def report(generation: object, state: str = "RUNNING", key: str = "status-task-a-0") -> Pair:
    """Return the record of a status of task 0."""
    value = f'{{"state":"{state}","trace":null,"worker_id":"w","generation":{generation}}}'
    return key, value


# --- looks ----------------------------------------------------------------------------------


def fate(number: int) -> AnswerLookup:
    """Look up the fate of a record."""
    return lambda answer: _word(answer[f"record {number}"])


def _word(fate: Any) -> str:
    kind, thrown, _ = (fate, None, None) if isinstance(fate, str) else fate
    return f"{kind} ({SHORT_NAMES.get(thrown, thrown)})" if thrown else kind


def calls(number: int) -> AnswerLookup:
    """Look up the listener calls that a record caused."""
    return lambda answer: _calls(answer[f"record {number}"])


def _calls(fate: Any) -> str:
    made = () if isinstance(fate, str) else fate[2]
    return "; ".join(f"{name} {_printed_value(arguments)}" for name, arguments in made) or "no call"


def at(part: str, *path: str) -> AnswerLookup:
    """Look up a value in a store: `at("config.connectorTaskCounts", "a")`."""

    def look(answer: ComparableAnswer) -> str:
        value = answer.get(part)
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return _printed_value(value)

    return look


def holds(part: str) -> AnswerLookup:
    """Look up the keys under which a store holds something."""
    return lambda answer: ", ".join(f"`{key}`" for key in sorted(answer.get(part) or ())) or "none"


def both(*looks: AnswerLookup) -> AnswerLookup:
    """Look up several answers and join them."""
    return lambda answer: "; ".join(look(answer) for look in looks)


def named(name: str, look: AnswerLookup) -> AnswerLookup:
    """Prefix an answer with its name."""
    return lambda answer: f"{name} {look(answer)}"


def _printed_value(value: Any) -> str:
    """A value as text, without the type tags of the common form."""
    if value is None:
        return "none"
    if isinstance(value, dict) and value.keys() <= {"double", "boolean"} and value:
        return _scalar(value)
    if isinstance(value, dict):
        return (
            ", ".join(f"{name}: {_printed_value(member)}" for name, member in sorted(value.items()))
            or "{}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_printed_value, value)) + "]"
    return ascii(value).strip("'") if isinstance(value, str) else str(value)


def _scalar(typed_value: dict[str, Any]) -> str:
    if "boolean" in typed_value:
        return str(typed_value["boolean"]).lower()
    return str(_double(typed_value["double"]))


def _double(bits: str) -> float:
    number: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return number

"""Records of a cluster's life, without what differs between two lives of the same cluster.

| Record | What is left out |
|---|---|
| each | timestamp, order of JSON members |
| status | `generation`: a rebalance raises it, and one worker here never rebalances |
| status with a trace | the stack: the sentence of the exception stays |
| status UNASSIGNED | `version`: the Java worker has removed the instance by then, or not yet |
| active topic | task and time; repetitions, which a task writes until it has read the first one |
| tombstone | repetitions: several parts of a Java worker write it |
| offset | those that a later commit of the same step replaces: their number is a matter of time |
| session key | all of it: no second worker signs its requests |
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from controlplane.core.codec import decode_config, decode_status
from controlplane.core.entry import Entry
from controlplane.core.records import (
    ActiveTopic,
    ConnectorConfig,
    ConnectorStatus,
    TaskCommit,
    TaskConfig,
    TaskStatus,
)
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics

TOPICS = Topics()

RecordedValues = dict[tuple[str, str], list[Any]]
"""By topic and key: the values that were written, in order."""

ACTIVE = "active"
"""Value of each record of an active topic."""

_SESSION_KEY = b"session-key"


def values_by_key(entries: Iterable[Entry]) -> RecordedValues:
    """Comparable values of each key, in the order of writing."""
    by_key: RecordedValues = {}
    for entry in entries:
        if entry.key is not None and entry.key != _SESSION_KEY:
            by_key.setdefault((entry.topic, _key(entry.key)), []).append(_value(entry))
    return {place: _lasting(place[0], values) for place, values in by_key.items()}


def _key(key: bytes) -> str:
    content = _content(key)
    return json.dumps(content, sort_keys=True) if isinstance(content, list) else key.decode()


def _content(text: bytes) -> Any:
    """Content of JSON, or the text of other values, which other programs may write."""
    try:
        return json.loads(text)
    except ValueError:
        return repr(text)


def _value(entry: Entry) -> Any:
    if entry.value is None:
        return None
    content = _content(entry.value)
    if entry.topic != TOPICS.status or not isinstance(content, dict):
        return content
    if "topic" in content:
        return ACTIVE
    content.pop("generation", None)
    if content.get("trace") is not None:
        content["trace"] = sentence(content["trace"])
    if content.get("state") == "UNASSIGNED":
        content.pop("version", None)
    return content


def sentence(trace: str) -> str:
    """Sentence of the exception: the first line in Java, the last one in Python."""
    line = trace.splitlines()[-1 if trace.startswith("Traceback") else 0]
    return line.partition(": ")[2]


def _lasting(topic: str, values: Sequence[Any]) -> list[Any]:
    if topic == TOPICS.config:
        return [*values]
    if topic != TOPICS.status:
        is_repeated = any(value == before for before, value in pairwise(values))
        return [*values] if is_repeated else [*values[-1:]]
    repeatable = (None, ACTIVE)
    later = [
        value for before, value in pairwise(values) if value != before or value not in repeatable
    ]
    return [values[0], *later]


def without_stacks(answer: Any) -> Any:
    """Answer with sentences of exceptions instead of traces."""
    if isinstance(answer, Mapping):
        return {
            name: sentence(value) if name == "trace" else without_stacks(value)
            for name, value in answer.items()
        }
    return [*map(without_stacks, answer)] if isinstance(answer, list) else answer


# --- order between keys -------------------------------------------------------------------------

ORDER = (
    ("connector config", "connector RUNNING"),
    ("connector RUNNING", "task config"),
    ("task config", "task commit"),
    ("task commit", "task UNASSIGNED"),
    ("task commit", "task FAILED"),
    ("task UNASSIGNED", "task gone"),
    ("task RUNNING", "topic active"),
    ("connector gone from configs", "connector UNASSIGNED"),
    ("connector UNASSIGNED", "connector gone"),
    ("task UNASSIGNED", "connector gone"),
    ("topic gone", "connector gone"),
)
"""Cause and effect among the records of one step about a connector. Other orders vary."""


def disorder(entries: Iterable[Entry], profile: Profile) -> list[tuple[str, str, str]]:
    """Breaches of `ORDER` among the records of a step: connector, and the two kinds."""
    first: dict[tuple[str, str], int] = {}
    for number, entry in enumerate(entries):
        for connector, kind in _kinds(entry, profile):
            first.setdefault((connector, kind), number)
    return [
        (connector, cause, effect)
        for connector in sorted({connector for connector, _ in first})
        for cause, effect in ORDER
        if {(connector, cause), (connector, effect)} <= first.keys()
        and first[connector, cause] > first[connector, effect]
    ]


def _kinds(entry: Entry, profile: Profile) -> Iterator[tuple[str, str]]:
    decode = decode_config if entry.topic == TOPICS.config else decode_status
    if entry.topic not in {TOPICS.config, TOPICS.status}:
        return
    match decode(entry.key, entry.value, profile):
        case ConnectorConfig(name, properties):
            yield name, "connector config" if properties else "connector gone from configs"
        case TaskConfig(name):
            yield name, "task config"
        case TaskCommit(name):
            yield name, "task commit"
        case ConnectorStatus(name, status):
            yield name, f"connector {status.state.value if status else 'gone'}"
        case TaskStatus(name, _, status):
            yield name, f"task {status.state.value if status else 'gone'}"
        case ActiveTopic(name, _, activity):
            yield name, f"topic {'active' if activity else 'gone'}"

"""Two answers to one request, as people and programs are shown how they differ."""

import difflib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from controlplane.core.text.redaction import redacted_value
from controlplane.core.text.value_text import bounded
from controlplane.scenario.story import RecordedAnswer

DIFFERS = " (differs)"
"""Behind what is hidden, where the other answer does not have it: people see that, and no more."""


class AnswerPair(NamedTuple):
    """The recorded and the folded answer to one request, without secrets."""

    recorded: RecordedAnswer
    folded: RecordedAnswer


def without_secrets(recorded: RecordedAnswer, folded: RecordedAnswer) -> AnswerPair:
    """Both answers with their secrets hidden; one that only the folded answer has is marked."""
    known = set()

    def remembered(raw: Any, hidden: Any) -> Any:
        known.add(raw)
        return hidden

    def marked(raw: Any, hidden: Any) -> Any:
        return hidden if raw in known else f"{hidden}{DIFFERS}"

    return AnswerPair(
        RecordedAnswer(recorded.status, redacted_value("", recorded.answer, remembered)),
        RecordedAnswer(folded.status, redacted_value("", folded.answer, marked)),
    )


def compared(recorded: RecordedAnswer, folded: RecordedAnswer) -> Iterator[str]:
    """Lines that differ between two answers, with some around them."""
    one, other = map(_lines, without_secrets(recorded, folded))
    lines = difflib.unified_diff(one, other, "recorded", "folded", lineterm="")
    found = [line for line in lines if not line.startswith("@@")]
    yield from found or ["they differ only in what is hidden here, or lies too deep to be shown"]


def _lines(given: RecordedAnswer) -> list[str]:
    answer = _arranged(bounded(given.answer))
    body = json.dumps(answer, indent=2, sort_keys=True, ensure_ascii=False)
    return [f"HTTP {given.status}", *body.splitlines()]


def _arranged(answer: Any) -> Any:
    """An answer with its lists in one order: Java's is none, and is not compared."""
    if isinstance(answer, dict):
        return {name: _arranged(member) for name, member in answer.items()}
    if isinstance(answer, list):
        return sorted(map(_arranged, answer), key=lambda one: json.dumps(one, sort_keys=True))
    return answer


# --- without a catalogue of connector classes -----------------------------------------------


def without_types(path: str, given: RecordedAnswer) -> RecordedAnswer:
    """An answer without the types of connectors, which only a catalogue tells."""
    return RecordedAnswer(given.status, _untyped(path, given.answer))


def _untyped(path: str, answer: Any) -> Any:
    """An answer without `type` in the places where Connect puts it."""
    place, _, query = path.partition("?")
    _, *parts = place.rstrip("/").split("/")
    if not isinstance(answer, dict):
        return answer
    if len(parts) == 1 and query:
        return {name: _untyped_parts(shown) for name, shown in answer.items()}
    typed = len(parts) == _INFO or parts[_INFO:] == ["status"]
    return _without_type(answer) if typed else answer


_INFO = 2
"""Segments of `/connectors/{c}`."""


def _untyped_parts(shown: Any) -> Any:
    """Remove the types of one connector in an expanded list, from its `info` and its `status`."""
    if not isinstance(shown, dict):
        return shown
    return {part: _without_type(told) for part, told in shown.items()}


def _without_type(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    return {name: member for name, member in told.items() if name != "type"}


def tells_a_consumer_group(given: RecordedAnswer) -> bool:
    """True if an offsets answer has a consumer group's offsets, judged by its shape alone."""
    listed = given.answer.get("offsets") if isinstance(given.answer, dict) else None
    if isinstance(listed, dict):
        return bool(listed.get("sink"))
    partitions = [one.get("partition") for one in listed or [] if isinstance(one, dict)]
    return bool(partitions) and all(
        isinstance(one, dict) and one.keys() == {"kafka_topic", "kafka_partition"}
        for one in partitions
    )

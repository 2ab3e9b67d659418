"""Differences between the recorded and the folded answer to one request, without secrets."""

import difflib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from controlplane.core.text.redaction import redacted_value
from controlplane.core.text.value_text import bounded
from controlplane.rest.endpoints.pure_requests import endpoint_parts
from controlplane.scenario.story import RecordedAnswer

DIFFERS = " (differs)"
"""Mark of a hidden secret that the other answer lacks."""


class AnswerPair(NamedTuple):
    """Recorded and folded answer to one request, without secrets."""

    recorded: RecordedAnswer
    folded: RecordedAnswer


def without_secrets(recorded: RecordedAnswer, folded: RecordedAnswer) -> AnswerPair:
    """Hide the secrets of both answers; mark a secret that only the folded answer has."""
    reported = set()

    def remembered(raw: Any, hidden: Any) -> Any:
        reported.add(raw)
        return hidden

    def marked(raw: Any, hidden: Any) -> Any:
        return hidden if raw in reported else f"{hidden}{DIFFERS}"

    return AnswerPair(
        RecordedAnswer(recorded.status, redacted_value("", recorded.answer, remembered)),
        RecordedAnswer(folded.status, redacted_value("", folded.answer, marked)),
    )


def compared(recorded: RecordedAnswer, folded: RecordedAnswer) -> Iterator[str]:
    """Yield a unified diff of two answers without secrets; one sentence if no line differs."""
    before, after = map(_lines, without_secrets(recorded, folded))
    diff = difflib.unified_diff(before, after, "recorded", "folded", lineterm="")
    lines = [line for line in diff if not line.startswith("@@")]
    yield from lines or ["the difference is in a hidden secret, or nested too deeply to be shown"]


def _lines(answer: RecordedAnswer) -> list[str]:
    document = _sorted(bounded(answer.answer))
    body = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    return [f"HTTP {answer.status}", *body.splitlines()]


def _sorted(document: Any) -> Any:
    """An answer with sorted lists: Java has them in no order, so their order is not compared."""
    if isinstance(document, dict):
        return {name: _sorted(member) for name, member in document.items()}
    if isinstance(document, list):
        elements = map(_sorted, document)
        return sorted(elements, key=lambda element: json.dumps(element, sort_keys=True))
    return document


# --- without a catalogue of connector classes -----------------------------------------------


def without_types(path: str, answer: RecordedAnswer) -> RecordedAnswer:
    """An answer without the types of connectors."""
    return RecordedAnswer(answer.status, _untyped(path, answer.answer))


def _untyped(path: str, document: Any) -> Any:
    """The body of an answer without `type` in the places where Connect puts it."""
    if not isinstance(document, dict):
        return document
    connector, rest = endpoint_parts(path)
    if connector is None and "?" in path:
        return {name: _untyped_parts(expanded) for name, expanded in document.items()}
    typed = connector is not None and rest in ((), ("status",))
    return _without_type(document) if typed else document


def _untyped_parts(expanded: Any) -> Any:
    """A connector of an expanded list without `type` in its `info` and its `status`."""
    if not isinstance(expanded, dict):
        return expanded
    return {name: _without_type(part) for name, part in expanded.items()}


def _without_type(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: member for name, member in part.items() if name != "type"}


def is_of_consumer_group(answer: RecordedAnswer) -> bool:
    """True if an offsets answer has a consumer group's offsets, judged by its form."""
    listed = answer.answer.get("offsets") if isinstance(answer.answer, dict) else None
    if isinstance(listed, dict):
        return bool(listed.get("sink"))
    partitions = [element.get("partition") for element in listed or [] if isinstance(element, dict)]
    return bool(partitions) and all(
        isinstance(partition, dict) and partition.keys() == {"kafka_topic", "kafka_partition"}
        for partition in partitions
    )

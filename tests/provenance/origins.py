"""Origins of long texts in catalogues and recordings: a table of kinds with reasons.

A text of Kafka's documentation has no row here, so a test fails if one is added. NOTICE says the
same to readers of the distribution.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from tests.provenance.settings import descriptions
from tests.provenance.texts import JSON, Text

FEW_WORDS = 12
"""Number of words up to which a text needs no origin: names, lists of values, digests."""

_TRACE = re.compile(r"[\w.$]+(: .*)?\n\tat [\w.$]+", re.DOTALL)
_REFUSED = re.compile(r"[45]\d\d \S")
_CONFIRMED = re.compile(r"The Connect framework-managed offsets for this connector have been \w+ ")
_PAGE = re.compile(r"<html>\s*<head>.*<title>Error [45]\d\d ", re.DOTALL)

_ANSWER = {"error_code", "status", "message"}
"""Fields of a worker's error: the message, and the code beside it."""


@cache
def _described() -> frozenset[str]:
    return frozenset(descriptions().values())


class Origin(NamedTuple):
    """Kind of long texts: its name, the reason for its presence, and its rule of recognition."""

    name: str
    why: str
    holds: Callable[[Text], bool]


ORIGINS = (
    Origin(
        "description",
        "our own words about a setting",
        lambda text: (
            text.text in _described()
            and (text.field == "documentation" or text.path.endswith("descriptions.json"))
        ),
    ),
    Origin(
        "remark",
        "our own words about a recording, or about the classes in it",
        lambda text: not {"about", "conventions", "alter_offsets"}.isdisjoint(text.place),
    ),
    Origin(
        "written by us",
        "scenarios, documents and programs of this project: no data that others have answered",
        lambda text: not text.path.endswith(JSON),
    ),
    Origin(
        "stack trace",
        "part of a failed task's status, in the record and in the answer",
        lambda text: text.field == "trace" and bool(_TRACE.match(text.text)),
    ),
    Origin(
        "message",
        "an answer of a real worker: clients look for these words, so `/compat` has to say them",
        lambda text: text.field == "message" and {"message"} < text.beside <= _ANSWER,
    ),
    Origin(
        "confirmation",
        "a worker's answer to altered or reset offsets: it has no code beside the message",
        lambda text: text.field == "message" and bool(_CONFIRMED.match(text.text)),
    ),
    Origin(
        "validation error",
        "an answer of a real worker about one value of a config; `/compat` gives it, too",
        lambda text: text.field == "errors" and "recommended_values" in text.beside,
    ),
    Origin(
        "refusal",
        "status and message of a refused config, as a real worker answered it",
        lambda text: text.field == "refused" and bool(_REFUSED.match(text.text)),
    ),
    Origin(
        "error page",
        "the page of the HTTP server in a worker, which `/compat` answers to the byte",
        lambda text: bool(_PAGE.match(text.text)),
    ),
)
"""Origin of a long text: the first row that holds."""


def is_long(text: Text) -> bool:
    """True for a text that needs an origin."""
    return len(text.text.split()) > FEW_WORDS


def origin(text: Text) -> Origin | None:
    """Origin of a text; None for a text that must not be here."""
    return next((row for row in ORIGINS if row.holds(text)), None)

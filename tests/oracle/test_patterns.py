"""Comparison of translated regular expressions with `java.util.regex`, on random patterns.

A pattern that is translated matches as in Java, and no invalid pattern is translated. Patterns that
only Java can match are refused; they are a minority.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.java.pattern_parser import UnsupportedPattern
from controlplane.core.java.regular_expressions import JavaPattern
from tests.conftest import SEED
from tests.oracle.kafka import HEAP, harness, line_answers, release_path
from tests.oracle.pattern_cases import PatternCase, pattern_cases

PATTERNS = Path(__file__).parent / "patterns"
RELEASE = "3.9.1"
COUNT = 1_500
COUNT_PROVED = 60_000
CHUNK = 6_000

_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_CONDITION = re.compile(r"[\^$]|\\[bBAzZ]|\(\?<?[=!]")
"""Anchors and look-arounds, and characters like them."""


def _javas_answers(cases: Iterable[PatternCase]) -> list[dict[str, Any]]:
    """Answers of one Java process."""
    path = harness(PATTERNS, RELEASE), release_path(RELEASE)
    questions = (json.dumps(case._asdict()) for case in cases)
    return line_answers("Patterns", path, questions, HEAP, "-XX:TieredStopAtLevel=1")


def _judge(cases: Iterable[PatternCase]) -> Counter[str]:
    """Fail with the shortest pattern that has different answers; count the kinds of answers."""
    cases = list(cases)
    kinds: Counter[str] = Counter()
    wrong: list[str] = []
    for case, theirs in zip(cases, _javas_answers(cases), strict=True):
        try:
            pattern = JavaPattern.of(case.pattern)
        except UnsupportedPattern:
            kinds["invalid" if "error" in theirs else "refused"] += 1
            continue
        ours = [pattern.matches(text) for text in case.texts]
        kinds["matching" if any(ours) else "other"] += 1
        if _intended_answers(case, theirs, ours) != theirs.get("matches"):
            wrong.append(f"{case}\nJava: {theirs}\nours: {ours}")
    assert not wrong, f"{len(wrong)} of {len(cases)}: {min(wrong, key=len)}"
    return kinds


def _intended_answers(case: PatternCase, theirs: dict[str, Any], ours: list[bool]) -> list[bool]:
    r"""Our answers, with those of Java where the difference is intended.

    - `\b` is that of Java 19: older releases take letters beyond ASCII as parts of words.
    - Java misses some matches of repeated groups: `(\A|aa){2}` should match `aa`, and
      `(\B([^A])*){2}` should match ` a`. An anchor, a look-around or another repeated group is
      within them.
    """
    if "error" in theirs:
        return ours
    has_word_edge = "\\b" in case.pattern.lower()
    loops = len(_REPEATED_GROUP.findall(case.pattern))
    misses = loops > 1 or (loops > 0 and _CONDITION.search(case.pattern) is not None)
    return [
        java if (has_word_edge and not text.isascii()) or (misses and own and not java) else own
        for text, java, own in zip(case.texts, theirs["matches"], ours, strict=True)
    ]


@pytest.mark.java
def test_patterns_match_as_in_java() -> None:
    """Random patterns match the same texts, or are refused; most are translated."""
    kinds = _judge(pattern_cases(SEED, COUNT))
    assert kinds["matching"] > COUNT / 3
    assert kinds["invalid"] > COUNT / 20
    assert kinds["refused"] < COUNT / 4


@pytest.mark.java
def test_java_misses_matches_of_repeated_groups() -> None:
    """The examples of the deviation differ from Java."""
    cases = [PatternCase(r"(\A|aa){2}", ("aa",)), PatternCase(r"(\B([^A])*){2}", (" a",))]
    assert [answer["matches"] for answer in _javas_answers(cases)] == [[False], [False]]
    for case in cases:
        assert JavaPattern.of(case.pattern).matches(case.texts[0])


@pytest.mark.java
@pytest.mark.prove
@pytest.mark.parametrize("part", range(COUNT_PROVED // CHUNK))
def test_patterns_match_as_in_java_proved(part: int) -> None:
    """Each part of tens of thousands of random patterns matches as in Java."""
    _judge(pattern_cases(f"{SEED}/{part}", CHUNK))

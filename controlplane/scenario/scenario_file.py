"""Parser of scenario files, and replacement of their expected output.

    file      = (comment | blank | step)*
    comment   = "#" text
    step      = verb word* key=value*          one line
                body line*                      optional: records, JSON
                "----"
                expected line*                  ends at the first blank line

Rewriting replaces expected lines that differ and nothing else: the rest stays byte for byte.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import msgspec

SEPARATOR = "----"
_MARK = "\ufeff"
"""Byte-order mark, with which some editors begin a file; it is no part of the first line."""
_OPTION = re.compile(r"([a-z][a-z_-]*)=(.*)", re.ASCII)


class BadScenario(ValueError):
    """The file is no valid scenario. The message begins with file and line."""


class ScenarioStep(msgspec.Struct, frozen=True):
    """Step of a scenario; `line` is the number of its first line, from 1."""

    text: str
    line: int
    verb: str
    words: tuple[str, ...]
    options: Mapping[str, str]
    body: tuple[str, ...]
    expected: tuple[str, ...]
    expected_line: int
    """Number of the line after `----`, at which expected output begins, if there is any."""


class Scenario(msgspec.Struct, frozen=True):
    """Scenario file: its name in messages, its lines with their line ends, its steps."""

    name: str
    lines: tuple[str, ...]
    steps: tuple[ScenarioStep, ...]

    @property
    def title(self) -> str:
        """First line of the file's opening comment; empty if the file begins with a step."""
        first = next((line for line in self.lines if line.strip()), "").removeprefix(_MARK)
        return first.lstrip("# ").strip() if first.startswith("#") else ""


def parse(text: str, name: str) -> Scenario:
    """A scenario from its text. `name` is what errors call the file.

    Raises:
        BadScenario: a step has no `----`, an option is given twice, a comment follows expected
            lines without a blank line between them.
    """
    lines = tuple(re.split(r"(?<=\n)", text))
    bare = (lines[0].removeprefix(_MARK), *lines[1:])
    reader = _ScenarioParser([line.rstrip("\r\n") for line in bare], name)
    return Scenario(name, lines, tuple(reader.steps()))


def rewritten(scenario: Scenario, printed: Sequence[Sequence[str]]) -> str:
    """The file's text with the expected lines of each step replaced by what it printed."""
    lines = list(scenario.lines)
    for step, output in reversed(list(zip(scenario.steps, printed, strict=True))):
        if tuple(output) != step.expected:
            start = step.expected_line - 1
            end = "\r\n" if lines[start - 1].endswith("\r\n") else "\n"
            lines[start - 1] = lines[start - 1].rstrip("\r\n") + end
            lines[start : start + len(step.expected)] = [line + end for line in output]
    return "".join(lines)


class _ScenarioParser:
    """Walks through the lines of one file."""

    def __init__(self, lines: list[str], name: str) -> None:
        self._lines = lines
        self._name = name
        self._next = 0

    def steps(self) -> list[ScenarioStep]:
        steps = []
        while self._next < len(self._lines):
            line = self._lines[self._next]
            if not line.strip() or line.startswith("#"):
                self._next += 1
            else:
                steps.append(self._step(line))
        return steps

    def _step(self, text: str) -> ScenarioStep:
        number = self._next + 1
        verb, *rest = text.split()
        words = tuple(word for word in rest if not _OPTION.fullmatch(word))
        options = self._options(rest, number)
        body = self._body(number, verb)
        expected_line = self._next + 1
        expected = self._expected()
        return ScenarioStep(
            text.strip(), number, verb, words, options, body, expected, expected_line
        )

    def _options(self, words: list[str], number: int) -> dict[str, str]:
        options: dict[str, str] = {}
        for name, value in (match.groups() for word in words if (match := _OPTION.fullmatch(word))):
            if name in options:
                self._fail(number, f"{name}= is given twice: leave one")
            if not value:
                self._fail(number, f"{name}= has no value: write {name}=…")
            options[name] = value
        return options

    def _body(self, number: int, verb: str) -> tuple[str, ...]:
        self._next += 1
        body = self._until(lambda line: not line.strip() or line.rstrip() == SEPARATOR)
        if self._next == len(self._lines) or not self._lines[self._next].strip():
            self._fail(number, f"`{verb}` has no {SEPARATOR}: put it on a line after the step")
        self._next += 1
        return body

    def _expected(self) -> tuple[str, ...]:
        expected = self._until(lambda line: not line.strip())
        for number, line in enumerate(expected, start=self._next - len(expected) + 1):
            if line.startswith("#"):
                self._fail(number, "a comment needs a blank line before it")
        return expected

    def _until(self, ends: Callable[[str], bool]) -> tuple[str, ...]:
        start = self._next
        while self._next < len(self._lines) and not ends(self._lines[self._next]):
            self._next += 1
        return tuple(self._lines[start : self._next])

    def _fail(self, number: int, reason: str) -> NoReturn:
        raise BadScenario(f"{self._name}:{number}: {reason}")

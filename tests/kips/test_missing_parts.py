"""The list of missing parts is current, and the titles of sections are those of the KIPs."""

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kips.missing_parts import LATER, MissingPart

FOLDER = Path(__file__).parent
WORDS_ALIKE = 8
"""Number of equal consecutive words that count as a copy."""


def waiting(need: MissingPart) -> list[str]:
    """The sentences that wait for a missing part."""
    return [
        f"{kip}, {section}: {row.says}"
        for kip, sections in LATER.items()
        for section, rows in sections.items()
        for row in rows
        if row.needs is need
    ]


def listed(need: MissingPart) -> str:
    """Failure message: write tests for these sentences."""
    return f"{need.value}: they are here now. Make tests of these:\n" + "\n".join(waiting(need))


@pytest.mark.parametrize("need", MissingPart)
def test_every_missing_part_has_a_sentence(need: MissingPart) -> None:
    """Every kind of missing part has a sentence that waits for it."""
    assert waiting(need)


@pytest.mark.parametrize(
    ("need", "module"),
    [
        (MissingPart.GROUP, "controlplane.core.assign"),
    ],
)
def test_missing_parts_do_not_exist(need: MissingPart, module: str) -> None:
    """No missing part exists yet; the design names its module."""
    assert find_spec(module) is None, listed(need)


class Section(NamedTuple):
    """A section of a KIP, and our statements about it."""

    kip: str
    title: str
    says: tuple[str, ...]


def sections_listed() -> Iterator[Section]:
    """Every section with a listed sentence."""
    for kip, named in LATER.items():
        for title, rows in named.items():
            yield Section(kip, title, tuple(row.says for row in rows))


def sections_tested() -> Iterator[Section]:
    """Every section with a test."""
    for path in sorted(FOLDER.glob("test_kip_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                yield _tested("KIP-" + path.stem.split("_")[2], node)


def _tested(kip: str, node: ast.ClassDef) -> Section:
    """The section of a class of tests, from its docstring up to a full stop or a dash."""
    tests = (
        member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    title = (ast.get_docstring(node) or "").partition(" – ")[0].removesuffix(".")
    return Section(kip, title, tuple(ast.get_docstring(test) or "" for test in tests))


def text_of(kip: str, shared: Path) -> str:
    """Return the text of a KIP."""
    return (shared / "kips" / f"{kip.lower()}.txt").read_text(encoding="utf-8")


def words(text: str) -> list[str]:
    """Words of a text, without punctuation."""
    return re.findall(r"[\w/]+", text.lower())


@pytest.mark.shared
def test_sections_are_those_of_the_kips(shared: Path) -> None:
    """Each title is a line of its KIP."""
    for kip, title, _ in (*sections_tested(), *sections_listed()):
        lines = (" ".join(line.split()).strip("- ") for line in text_of(kip, shared).splitlines())
        assert title in lines, f"{kip} has no section {title!r}"


@pytest.mark.shared
def test_words_are_our_own(shared: Path) -> None:
    """Our statements copy no sentence of a KIP."""
    for kip, title, says in (*sections_tested(), *sections_listed()):
        theirs = words(text_of(kip, shared))
        runs = {tuple(theirs[at : at + WORDS_ALIKE]) for at in range(len(theirs))}
        for sentence in says:
            ours = words(sentence)
            ours_in_runs = (tuple(ours[at : at + WORDS_ALIKE]) for at in range(len(ours)))
            alike = [run for run in ours_in_runs if len(run) == WORDS_ALIKE and run in runs]
            assert not alike, f"{kip}, {title}: {' '.join(alike[0])}"


def test_every_kip_has_tests() -> None:
    """Each KIP has tests; no sentence of KIP-910 waits for a missing part."""
    assert {section.kip for section in sections_tested()} == LATER.keys() | {"KIP-910"}
    assert "KIP-910" not in LATER

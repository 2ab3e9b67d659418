"""Rules about sizes, names and docstrings."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.tidy.source import Offence, SourceFile

FILE_LINES = 500
MEDIAN_LINES = 180
FUNCTION_LINES = 60
SCENARIO_LINES = 120

BANNED = {"manager", "helper", "helpers", "util", "utils", "handler", "processor", "data"}
"""Words that say nothing about a thing."""

CALLED_BY_OTHERS = {"data_received", "handle_data", "timeout_keep_alive_handler"}
"""Methods that asyncio, uvicorn and HTML's parser call by these names."""

WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
Function = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode = Function | ast.ClassDef


CONNECTS = {"DataError"}
"""Names that Connect's users recognise: `DataError` is its DataException."""


def file_size(source: SourceFile) -> Iterator[Offence]:
    """A file has at most `FILE_LINES` lines, a scenario `SCENARIO_LINES`; all lines count."""
    lines = source.text.count("\n")
    limit = SCENARIO_LINES if source.path.endswith(".scenario") else FILE_LINES
    if lines > limit:
        yield Offence(lines, f"{lines} lines, at most {limit}")


def function_size(source: SourceFile) -> Iterator[Offence]:
    """A function fits on a screen, including its docstring."""
    for node in source.functions:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            yield Offence(node.lineno, f"{node.name}: {lines} lines, at most {FUNCTION_LINES}")


def names(source: SourceFile) -> Iterator[Offence]:
    """A name says what a thing is, and ends with its unit."""
    for line, name in _defined(source):
        if name == "data" and not source.in_package:
            continue  # Hypothesis passes `data` to tests by this name
        if name in CALLED_BY_OTHERS | CONNECTS:
            continue
        words = _words(name)
        if BANNED & set(words) or words[:1] == ["do"]:
            yield Offence(line, f"{name} says nothing")
        if "ms" in words[:-1]:
            yield Offence(line, f"{name} has its unit before its end: put `ms` last")


@cache
def _words(name: str) -> list[str]:
    """Words of a name, in lower case."""
    return [word.lower() for word in WORD.findall(name)]


def _defined(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Every name that this file defines, including the file's own."""
    yield 1, source.path.rpartition("/")[2].partition(".")[0]
    types = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.arg, ast.Name, ast.alias)
    for node in source.nodes(*types):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def docstrings(source: SourceFile) -> Iterator[Offence]:
    """Every module, public name of a package and test has a docstring."""
    if not ast.get_docstring(source.tree):
        yield Offence(1, "the file has no docstring")
    for node in _public(source.tree.body, source):
        if not ast.get_docstring(node):
            yield Offence(node.lineno, f"{node.name} has no docstring")


def _public(body: list[ast.stmt], source: SourceFile) -> Iterator[DefinitionNode]:
    """Public definitions: names without underscore; in files outside of packages only the tests."""
    for node in body:
        if not isinstance(node, DefinitionNode) or node.name.startswith("_"):
            continue
        if source.in_package or node.name.startswith("test_"):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from _public(node.body, source)

"""Rules about the tiers of tests: markers, and modules that start Java, brokers or browsers."""

import ast
import tomllib
from collections.abc import Iterable, Iterator

from tests.conftest import NEEDS
from tests.tidy.layers import imports
from tests.tidy.source import ROOT, Offence, SourceFile

LONGER = {*NEEDS, "slow", "prove"}
"""Markers of tests that `make quick` leaves out."""

PYTESTS = {"asyncio", "parametrize", "skip", "skipif", "usefixtures", "xfail"}
"""Markers of pytest and its plugins."""

DRIVERS = {"pyspark", "selenium", "tests.kafka.real_kafka", "tests.replay.report.browser"}
"""Modules that start brokers, workers, browsers or Spark."""

FIXTURES = {"broker", "browser", "spark"}
"""Fixtures that start a broker, a browser or Spark."""


def declared_markers() -> set[str]:
    """Return the markers that pyproject.toml declares."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return {line.partition(":")[0] for line in settings["tool"]["pytest"]["ini_options"]["markers"]}


def documented_markers() -> set[str]:
    """Markers that the table of docs/testing.md describes, one in each row."""
    rows = (ROOT / "docs" / "testing.md").read_text("utf-8").partition("| Marker |")[2]
    table = rows.partition("\n\n")[0].splitlines()[2:]
    return {row.split("`")[1] for row in table}


def used_markers(sources: Iterable[SourceFile]) -> set[str]:
    """Markers of tests in these files, without those of pytest and its plugins."""
    return {
        name
        for source in sources
        for node in source.nodes(ast.Attribute)
        if (name := _marker(node))
    } - PYTESTS


def tiers(source: SourceFile) -> Iterator[Offence]:
    """A test that starts Java, a broker or a browser has a marker that `make quick` leaves out."""
    if not source.is_test or _is_longer(_module_markers(source.tree)):
        return
    is_driver = any(_drives(module) for _, module in imports(source))
    for test in source.functions:
        if not test.name.startswith("test_"):
            continue
        started = FIXTURES & {argument.arg for argument in test.args.args}
        if (is_driver or started) and not _is_longer(map(ast.unparse, test.decorator_list)):
            yield Offence(test.lineno, f"{test.name} needs a marker of a longer tier")


def _drives(module: str) -> bool:
    return any(module == driver or module.startswith(f"{driver}.") for driver in DRIVERS)


def _module_markers(tree: ast.Module) -> Iterator[str]:
    """The value of `pytestmark`, as text."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield ast.unparse(value)


def _is_longer(texts: Iterable[str]) -> bool:
    markers = {_marker(node) for text in texts for node in ast.walk(ast.parse(text))}
    return bool(LONGER & markers)


def _marker(node: ast.AST) -> str:
    """NAME of `pytest.mark.NAME`; empty for other nodes."""
    match node:
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"), attr=name
        ):
            return name
    return ""

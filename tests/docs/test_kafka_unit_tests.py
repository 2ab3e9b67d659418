"""docs/kafka-unit-tests.md lists every test of Kafka, and existing tests of ours.

The list of Kafka's tests is data (`kafka_unit_tests.json`). A test with Java compares it with the
classes of the released jar.
"""

import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.consoles import ROOT
from tests.jars import classpath, java

DOCUMENT = ROOT / "docs" / "kafka-unit-tests.md"
PACKAGE = "org.apache.kafka.connect.runtime"
KAFKAS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("kafka_unit_tests.json").read_text("utf-8")
)
"""Names of the tests of each of Kafka's classes, in release 3.9.1."""

NO_MEANING = "no meaning here: "

LAWS = ["Q1-Q4", "X1-X3", "H1-H5", "L1-L4", "A1-A5"]
"""Labels of the laws of delivery, KIP-910, statuses and active topics."""


class TableRow(NamedTuple):
    """Row of a table: its section and cells."""

    section: str
    cells: list[str]


def rows() -> Iterator[TableRow]:
    """Rows of all tables, without their headers."""
    section = ""
    for line in DOCUMENT.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").split(" ")[0]
        elif line.startswith("| `") or re.match(r"\| [A-Z]\d \|", line):
            yield TableRow(section, [cell.strip() for cell in line.strip("|").split(" | ")])


def named_tests(cell: str) -> list[str]:
    """Tests in a cell: `tests/…::test_name`."""
    return re.findall(r"`(tests/[\w/]+\.py::\w+)`", cell)


@cache
def functions_in(path: str) -> frozenset[str]:
    """Names of the functions of a module."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_every_test_of_kafka_has_one_row() -> None:
    """The tables have each test of Kafka once, and no other."""
    named: dict[str, list[str]] = {name: [] for name in KAFKAS}
    for section, cells in rows():
        if section in named:
            named[section].append(cells[0].strip("`"))
    assert {name: sorted(tests) for name, tests in named.items()} == KAFKAS


def test_the_list_has_all_tests_of_five_classes() -> None:
    """The numbers of tests are those of Kafka 3.9.1, class by class."""
    assert [len(tests) for tests in KAFKAS.values()] == [12, 18, 16, 28, 30]


def test_each_row_names_a_test_or_a_reason() -> None:
    """Each row has either a test of ours or a reason."""
    for section, cells in rows():
        has_reason = cells[-1].startswith(NO_MEANING) and len(cells[-1]) > len(NO_MEANING)
        assert has_reason != bool(named_tests(cells[-1])), (section, cells)


def test_the_named_tests_exist() -> None:
    """Each `tests/…::test_name` is a function of that module."""
    named = {test for row in rows() for test in named_tests(row.cells[-1])}
    missing = [
        test
        for test in sorted(named)
        for path, _, function in [test.partition("::")]
        if not function.startswith("test_") or function not in functions_in(path)
    ]
    assert named
    assert not missing


def test_the_first_table_counts_the_rows() -> None:
    """Each class has its numbers of tests: all, with a test of ours, and without one."""
    counts = Counter(section for section, _ in rows() if section in KAFKAS)
    without = Counter(
        section for section, cells in rows() if section in KAFKAS and not named_tests(cells[-1])
    )
    text = DOCUMENT.read_text("utf-8")
    for section, count in counts.items():
        assert f"| [{section}]" in text
        assert f" | {count} | {count - without[section]} | {without[section]} |" in text


def test_every_law_has_a_test() -> None:
    """Each law has one row, labelled with its number, in order."""
    labels = [
        f"{first[0]}{number}"
        for first, last in (law.split("-") for law in LAWS)
        for number in range(int(first[1]), int(last[1]) + 1)
    ]
    assert [cells[0] for section, cells in rows() if section == "Laws"] == labels


@pytest.mark.java
@pytest.mark.prove
def test_the_list_is_that_of_the_jar() -> None:
    """The list has the public test methods of Kafka's classes."""
    program = java()
    if program is None:
        pytest.skip("there is no Java")
    path = classpath("org.apache.kafka:connect-runtime:3.9.1:test")
    javap = str(program.with_name("javap"))
    classes = [f"{PACKAGE}.{name}Test" for name in KAFKAS]
    command = [javap, "-J-XX:TieredStopAtLevel=1", "-public", "-cp", path, *classes]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    pattern = re.compile(r"^public class \S+\.(\w+)Test (.*?)^}$", re.DOTALL | re.MULTILINE)
    methods = {
        name: sorted(re.findall(r" void (test\w+)\(", body))
        for name, body in pattern.findall(done.stdout)
    }
    assert methods == KAFKAS

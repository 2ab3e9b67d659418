"""Rules about imports: circles of modules and of parts of a package, modules for one importer.

Imports inside of functions count; imports for types only do not.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain

from tests.tidy.layers import imports, is_for_types
from tests.tidy.source import PACKAGES, SourceFile

FREE_OF_CIRCLES = {*PACKAGES, "benchmarks"}

FRAGMENT_LINES = 60
"""A shorter file that only one module imports may be a part of that module."""

FRAGMENTS_LIMIT = 15
"""Maximum number of such files. Lower it when files are merged; a further file needs a reason."""

_Imports = Mapping[str, set[str]]
"""Imported modules or parts, by module or part of a package."""


def import_circle(sources: list[SourceFile]) -> list[str]:
    """Modules of one circle in the order of their imports; empty if there is none.

    A name imported from a package means the module of this name, or else the package's `__init__`.
    The `__init__` of the packages around a module do not count.
    """
    return _circle(_module_imports(sources))


def folder_circle(sources: list[SourceFile]) -> list[str]:
    """Parts of one package that import each other; empty if there are none.

    The parts of a package are its folders and its modules.
    """
    modules = _module_imports(sources)
    for package in sorted({_parent(name, depth) for name in modules for depth in range(1, 9)}):
        parts: dict[str, set[str]] = {}
        for importer, imported in modules.items():
            own = _part_of(package, importer)
            if own:
                others = {_part_of(package, name) for name in imported}
                parts.setdefault(own, set()).update(others - {own, ""})
        circle = _circle(parts)
        if circle:
            return circle
    return []


def fragments(sources: list[SourceFile]) -> list[str]:
    """Modules of the packages below `FRAGMENT_LINES` lines that exactly one other one imports."""
    packaged = [source for source in sources if source.in_package]
    imported = Counter(chain.from_iterable(_module_imports(packaged).values()))
    return [
        source.module
        for source in packaged
        if source.text.count("\n") < FRAGMENT_LINES
        and imported[source.module] == 1
        and not source.path.endswith("/__init__.py")
    ]


def documented_orders(document: str) -> dict[str, list[list[str]]]:
    """The parts of each package in the table of orders, in groups; each imports only earlier ones.

    A row names the package in its first cell, and in the second its parts; arrows separate groups.
    """
    table = document.partition("| Package | Order of its parts |")[2].partition("\n\n")[0]
    orders = {}
    for row in table.splitlines()[2:]:
        package, cell = row.strip("|").split("|")
        groups = [re.findall(r"`(\w+)`", group) for group in cell.split("→")]
        orders[package.strip(" `")] = groups
    return orders


def disorder(sources: list[SourceFile], orders: Mapping[str, list[list[str]]]) -> list[str]:
    """Imports against a package's documented order; parts that it omits, or that do not exist."""
    modules = _module_imports(sources)
    problems = []
    for package, groups in orders.items():
        rank = {f"{package}.{part}": rank for rank, group in enumerate(groups) for part in group}
        parts = {part for name in modules if (part := _part_of(package, name))}
        problems += [f"{part} is missing in a list" for part in sorted(parts ^ rank.keys())]
        for importer, imported in modules.items():
            own = _part_of(package, importer)
            others = {_part_of(package, name) for name in imported} - {own, ""}
            problems += [
                f"{importer} imports {other}, which comes no earlier"
                for other in sorted(others)
                if own in rank and other in rank and rank[other] >= rank[own]
            ]
    return problems


def _parent(module: str, depth: int) -> str:
    """The first names of a module."""
    return ".".join(module.split(".")[:depth])


def _part_of(package: str, module: str) -> str:
    """The part of a package that contains a module; empty for a module elsewhere."""
    if not module.startswith(f"{package}."):
        return ""
    return _parent(module, package.count(".") + 2)


def _circle(graph: _Imports) -> list[str]:
    """A circle in a graph of imports; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]  # graphlib begins with what is imported
    return []


def _module_imports(sources: list[SourceFile]) -> _Imports:
    files = {
        source.module: source for source in sources if source.path.split("/")[0] in FREE_OF_CIRCLES
    }
    return {name: _imported(file, files.keys()) - {name} for name, file in files.items()}


def _imported(source: SourceFile, modules: Collection[str]) -> set[str]:
    """The subset of these modules that a file imports at any time of its run."""
    for_types = {
        line
        for node in source.nodes(ast.If)
        if is_for_types(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    names = {name for line, name in imports(source) if line not in for_types}
    return {name if name in modules else name.rpartition(".")[0] for name in names}.intersection(
        modules
    )

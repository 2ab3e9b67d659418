"""Rule about circles of imports: those inside of functions count, those for types only do not."""

import ast
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter

from tests.tidy.layers import imports
from tests.tidy.source import PACKAGES, SourceFile

FREE_OF_CIRCLES = {*PACKAGES, "benchmarks"}


def import_circle(sources: list[SourceFile]) -> list[str]:
    """Modules of one circle in the order of their imports; empty if there is none.

    A name imported from a package is an import of the module that has this name, or else of the
    package's `__init__`. The `__init__` of the packages around a module do not count.
    """
    files = {one.module: one for one in sources if one.path.split("/")[0] in FREE_OF_CIRCLES}
    graph = {name: _imported(file, files.keys()) - {name} for name, file in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]  # graphlib begins with what is imported
    return []


def _imported(source: SourceFile, modules: Collection[str]) -> set[str]:
    """Modules of these that a file imports at any time of its run."""
    for_types = {
        line
        for node in ast.walk(source.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    names = {name for line, name in imports(source) if line not in for_types}
    return {name if name in modules else name.rpartition(".")[0] for name in names}.intersection(
        modules
    )

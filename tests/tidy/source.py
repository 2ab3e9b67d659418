"""The files that the house rules check, and the form of a rule.

A rule takes one file and yields its offences: a line number and a few words each.
"""

import ast
import gc
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controlplane", "replay")


N = TypeVar("N", bound=ast.AST)


class Offence(NamedTuple):
    """A place that breaks a rule: line number from 1, and the problem."""

    line: int
    problem: str


class SourceFile:
    """One file, by its path from the root of the repository, with `/`."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree of the file."""
        return ast.parse(self.text, self.path)

    @cached_property
    def _nodes(self) -> Mapping[type[ast.AST], list[ast.AST]]:
        """Nodes of the tree by type, kept because a walk takes longer than most rules.

        `Load`, `Store` and `Del` are left out: they are fields of names, and a third of all nodes.
        """
        by_type: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:
            by_type[type(node)].append(node)
            for value in vars(node).values():
                if isinstance(value, list):
                    nodes += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                    nodes.append(value)
        return by_type

    def nodes(self, *types: type[N]) -> Iterator[N]:
        """Yield the nodes of these types: each type in the order of a walk by levels."""
        for node_type in types:
            yield from cast("list[N]", self._nodes.get(node_type, ()))

    @property
    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods."""
        yield from self.nodes(ast.FunctionDef)
        yield from self.nodes(ast.AsyncFunctionDef)

    @property
    def module(self) -> str:
        """Dotted name: `controlplane.core.entry`; a package's own name for its `__init__.py`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        """Package that relative imports start from."""
        is_package = self.path.endswith("/__init__.py")
        return self.module if is_package else self.module.rpartition(".")[0]

    @property
    def in_package(self) -> bool:
        """True for a file of an installed package."""
        return self.path.startswith(tuple(f"{name}/" for name in PACKAGES))

    @property
    def is_test(self) -> bool:
        """True for a module that pytest collects."""
        return self.path.rpartition("/")[2].startswith("test_")

    def inside(self, *places: str) -> bool:
        """True for one of these files, or a file in one of these folders (named with `/`)."""
        return any(self.path.startswith(p) if p.endswith("/") else self.path == p for p in places)


Rule = Callable[[SourceFile], Iterator[Offence]]


MADE = {".git", ".venv", ".cache", ".hypothesis", "__pycache__", "dist", "target"}
"""Folders that tools make. A source distribution has no git that would leave them out."""


def tracked(*patterns: str) -> list[SourceFile]:
    """Text files that git tracks or would track; without git, all files that no tool made."""
    paths = _listed_by_git(*patterns) if (ROOT / ".git").exists() else _listed_by_walk(*patterns)
    return [source for path in sorted(paths) if (source := _read(path)) is not None]


def parse(sources: list[SourceFile]) -> None:
    """Parse all files. Garbage collection of the syntax trees would take as long as parsing."""
    gc.disable()
    for source in sources:
        assert [*source.nodes(ast.Module)]
    gc.freeze()
    gc.enable()


def _listed_by_git(*patterns: str) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for path in listed.split("\0") if path and (ROOT / path).is_file()]


def _listed_by_walk(*patterns: str) -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(part in MADE or part.endswith("_cache") for part in path.parts)
        and (not patterns or any(fnmatch(path.name, pattern) for pattern in patterns))
    ]


def _read(path: str) -> SourceFile | None:
    try:
        return SourceFile(path, (ROOT / path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return None


def offenders(rule: Rule, sources: list[SourceFile]) -> list[str]:
    """All offences against a rule in these files, as `path:line: text`."""
    return [
        f"{source.path}:{offence.line}: {offence.problem}"
        for source in sources
        for offence in rule(source)
    ]

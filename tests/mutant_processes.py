"""Processes in which one module of the product has a deliberate bug.

One process imports the libraries of the product and its tests, and then drops the project's own
modules. It forks per mutant. The fork loads one module in its mutated form, and imports the others
from their byte code. No library is loaded twice, and no file changes.
"""

import builtins
import gc
import json
import os
import signal
import subprocess
import symtable
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, NamedTuple, Self

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "controlplane"
OWN = ("controlplane", "tests")
"""Packages that each mutant imports anew, because their modules use the mutated one."""


class SourceMutant(NamedTuple):
    """One change of a module: its file in the package, a text, and its replacement."""

    file: str
    text: str
    replacement: str

    @property
    def source(self) -> str:
        """Text of the mutated module."""
        return (PACKAGE / self.file).read_text().replace(self.text, self.replacement)

    def undefined_names(self) -> set[str]:
        """Global names that the mutated module uses and nothing defines: it would only crash."""
        module = symtable.symtable(self.source, self.file, "exec")
        defined = {symbol.get_name() for symbol in module.get_symbols() if _is_defined(symbol)}
        return set(_used_globals(module)) - defined - {*dir(builtins), "__file__", "__name__"}


def _is_defined(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _used_globals(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _used_globals(inner)


class MutantOutcome(NamedTuple):
    """The exit code and the output of a mutant."""

    code: int
    output: str


class MutantProcesses:
    """The process that forks mutants, one after another. A context manager that ends it."""

    def __init__(self, *preloaded: str) -> None:
        """`preloaded`: modules that import all modules which the mutants need."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutant_processes", *preloaded],
            cwd=ROOT,
            # Pytest finds no plugin by itself: each suite names the plugins that its mutants use.
            env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, slip: SourceMutant | None, function: str, *arguments: Any) -> MutantOutcome:
        """Call `module:function` in a new mutant; the result is its exit code.

        Without a mutation the product is unchanged.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([slip, function, arguments]) + "\n")
        self._process.stdin.flush()
        return MutantOutcome(*json.loads(self._process.stdout.readline()))


class _BrokenLoader(SourceFileLoader):
    """Loads a module in its mutated form; byte code is neither read nor written."""

    def __init__(self, name: str, path: str, slip: SourceMutant) -> None:
        super().__init__(name, path)
        self._slip = slip

    def get_code(self, fullname: str) -> CodeType:
        """Byte code of the mutated source."""
        assert fullname == self.name
        source = Path(self.path).read_text("utf-8")
        return compile(source.replace(self._slip.text, self._slip.replacement), self.path, "exec")


class _BrokenFinder(MetaPathFinder):
    """Finds the mutated module, before any other finder does."""

    def __init__(self, slip: SourceMutant) -> None:
        self._path, self._slip = PACKAGE / slip.file, slip

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The spec of the mutated module; None for others."""
        if not fullname.startswith(PACKAGE.name):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin != str(self._path):
            return None
        loader = _BrokenLoader(fullname, spec.origin, self._slip)
        return spec_from_file_location(
            fullname,
            spec.origin,
            loader=loader,
            submodule_search_locations=spec.submodule_search_locations,
        )


def _mutant(slip: SourceMutant | None, function: str, arguments: list[Any]) -> int:
    """Mutate the product, then call the function; only for a fork."""
    signal.alarm(int(PATIENCE_S))
    if slip is not None:
        sys.meta_path.insert(0, _BrokenFinder(slip))
    module, _, name = function.partition(":")
    return int(getattr(import_module(module), name)(*arguments))


def _forked(slip: SourceMutant | None, function: str, arguments: list[Any]) -> MutantOutcome:
    """Outcome of a mutant in a fork of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(writer, stream.fileno())
            code = _mutant(slip, function, arguments)
        except BaseException:  # noqa: BLE001 - a mutant ends here, whatever it raises
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, errors="replace") as printed:
        output = printed.read()
    _, status = os.waitpid(child, 0)
    return MutantOutcome(os.waitstatus_to_exitcode(status), output)


def main(preloaded: list[str]) -> None:
    """Serve the requests that `MutantProcesses` sends."""
    for name in preloaded:
        import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in OWN]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        slip, function, arguments = json.loads(line)
        outcome = _forked(slip and SourceMutant(*slip), function, arguments)
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

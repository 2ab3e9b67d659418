"""Use of pyarrow without pandas, even if pandas is installed."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(self, fullname: str, *_: Any) -> None:
        """Raise `ModuleNotFoundError` for pandas; leave other modules to other finders."""
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def leave_out_pandas() -> None:
    """Keep pyarrow from importing pandas; call it once pyarrow is imported.

    The import takes a quarter of the time of a short command. Ctrl-C during the import may be lost,
    because pyarrow drops every error of it. Only the first array made of a list makes pyarrow look
    for pandas, and here it finds none. No command has values of pandas' types. A later conversion
    to pandas imports it.
    """
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None or "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([])
    finally:
        sys.meta_path.remove(finder)

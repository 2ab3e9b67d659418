"""Run of a snippet from standard input, which may use `await` at its top level."""

import ast
import asyncio
import inspect
import sys
from typing import Any


def main() -> None:
    """Run the code as `python -m asyncio` does."""
    compiled = compile(sys.stdin.read(), "<snippet>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"__name__": "__main__"}
    waiting = eval(compiled, names)  # not exec, which returns no coroutine
    if inspect.iscoroutine(waiting):
        asyncio.run(waiting)


if __name__ == "__main__":
    main()

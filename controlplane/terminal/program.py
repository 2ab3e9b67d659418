"""Start of a program; this module imports nothing that takes time."""

import sys
from importlib import import_module
from typing import NoReturn

from controlplane.terminal.exit_codes import INTERRUPTED


def run(name: str, module: str) -> NoReturn:
    """Import the commands of a program, run the one that `sys.argv` names, and end the process.

    `module`: the module with the click group, called `main`. The imports take a tenth of a second;
    Ctrl-C ends the process in that time as it does later.
    """
    try:
        main = import_module(module).main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(INTERRUPTED) from None
    main(prog_name=name)
    raise SystemExit(0)

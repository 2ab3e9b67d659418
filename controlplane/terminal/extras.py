"""Extras of this package: the command that installs what one of them needs."""

import shlex
from collections.abc import Iterator
from importlib.metadata import requires

_OURS = "controlplane"


def install_command(extra: str) -> str:
    """The command that installs an extra, from whatever this package was installed.

    It names the packages of the extra: no index may have this package, and a clone or a wheel may
    lie anywhere.
    """
    return shlex.join(["pip", "install", *_requirements(extra)])


def _requirements(extra: str) -> Iterator[str]:
    for line in requires(_OURS) or ():
        requirement, _, marker = line.partition(";")
        if f'extra == "{extra}"' not in marker.replace("'", '"'):
            continue
        name, _, inner = requirement.strip().rstrip("]").partition("[")
        if name == _OURS:
            yield from _requirements(inner)
        else:
            yield requirement.strip()

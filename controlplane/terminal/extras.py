"""Extras of this package, and the command that installs their requirements."""

import shlex
from collections.abc import Iterator
from importlib.metadata import requires

_OURS = "controlplane"


def install_command(extra: str) -> str:
    """Command that installs the requirements of an extra.

    It lists the requirements, because this package itself may come from a clone or a wheel that no
    index has.
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

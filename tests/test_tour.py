"""The tours in the package's docstring are correct."""

import contextlib
import io
import subprocess
import sys
from textwrap import dedent
from typing import get_args

import pytest

import controlplane
from controlplane import commands


@pytest.mark.parametrize(
    ("title", "prints"),
    [
        ("Read a log::", ["3.4 Target.PAUSED", "3.9 Target.STOPPED"]),
        ("Run commands::", ["Target.STOPPED"]),
    ],
)
def test_the_tours_run(title: str, prints: list[str]) -> None:
    """The examples of the package docstring run and print the promised lines."""
    _, _, code = (controlplane.__doc__ or "").partition(title)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(dedent(code.partition("\nRun commands")[0]), {})
    assert printed.getvalue().splitlines() == prints


def test_public_names_are_there() -> None:
    """Every exported name exists, and the names are sorted."""
    assert sorted(controlplane.__all__) == controlplane.__all__
    assert all(hasattr(controlplane, name) for name in controlplane.__all__)
    assert {*controlplane.__all__} <= {*dir(controlplane)}
    with pytest.raises(AttributeError, match="'controlplane' has no attribute 'Manager'"):
        _ = controlplane.Manager


def test_every_command_of_users_is_exported() -> None:
    """The package exports every command except those that workers send each other."""
    names = {command.__name__ for command in get_args(commands.AnyCommand)}
    assert names - {*controlplane.__all__} == {"PublishTasks", "FenceTasks"}


def test_the_package_imports_nothing_that_writes() -> None:
    """The package and its `dir()` import no module that writes."""
    code = (
        "import sys, controlplane\n"
        "assert 'ControlPlane' in dir(controlplane)\n"
        "writing = {'controlplane.plane', 'controlplane.controller', 'controlplane.core.decide'}\n"
        "sys.exit(' '.join(writing & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.stderr.decode().strip() == ""

"""The tours in the package's docstring are true."""

import contextlib
import io
from textwrap import dedent

import pytest

import controlplane


@pytest.mark.parametrize(
    ("title", "prints"),
    [
        ("A tour of what is read::", ["3.4 Target.PAUSED", "3.9 Target.STOPPED"]),
        ("And of what is written::", ["Target.STOPPED"]),
    ],
)
def test_the_tours_run(title: str, prints: list[str]) -> None:
    """What the docstring shows runs as it stands, and prints what it says."""
    _, _, code = (controlplane.__doc__ or "").partition(title)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(dedent(code.partition("\nAnd of")[0]), {})
    assert printed.getvalue().splitlines() == prints


def test_public_names_are_there() -> None:
    """Every name that is offered exists, and they are in order."""
    assert sorted(controlplane.__all__) == controlplane.__all__
    assert all(hasattr(controlplane, name) for name in controlplane.__all__)

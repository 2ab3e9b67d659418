"""The tour in the package's docstring is true."""

import contextlib
import io
from textwrap import dedent

import controlplane


def test_the_tour_runs() -> None:
    """What the docstring shows runs as it stands, and prints what it says."""
    _, _, code = (controlplane.__doc__ or "").partition("A tour::")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(dedent(code), {})
    assert printed.getvalue().splitlines() == ["3.4 Target.PAUSED", "3.9 Target.STOPPED"]


def test_public_names_are_there() -> None:
    """Every name that is offered exists, and they are in order."""
    assert sorted(controlplane.__all__) == controlplane.__all__
    assert all(hasattr(controlplane, name) for name in controlplane.__all__)

"""Lines for files of credentials: what is printed is what is read."""

import pytest

from controlplane.rest.security.hashes import password_line, token_line
from controlplane.rest.security.roles import Role
from tests.cli.calling import call


def test_a_password_is_asked_for_twice() -> None:
    """It fits the line that is printed; it is not shown."""
    said = call("credential", "password", "größe", "--role", "operate", typed="s3cret\ns3cret\n")
    assert said.code == 0
    assert "s3cret" not in said.out + said.err
    kept = password_line(said.out.strip())
    assert (kept.name, kept.role) == ("größe", Role.OPERATE)
    assert kept.hash.fits("s3cret")


def test_a_token_is_shown_once() -> None:
    """Apart from its line, and never the same."""
    said, again = (call("credential", "token", "ci", "--role", "administer") for _ in range(2))
    kept = token_line(said.out.strip())
    prefix, _, token = said.err.strip().rpartition(" ")
    assert prefix == "Authorization: Bearer"
    assert kept.hash.fits(token)
    assert token not in said.out
    assert said.err != again.err


@pytest.mark.parametrize("name", ["a:b", "", "#ann", " ann", "a\nb"])
def test_names_that_do_not_fit_into_a_line(name: str) -> None:
    """They are refused in a sentence."""
    said = call("credential", "token", name, "--role", "view")
    assert said.code == 2
    assert "cannot be used: take printable letters without a colon" in said.err
    assert said.out == ""


def test_roles() -> None:
    """Others than there are, are refused by name."""
    said = call("credential", "token", "ann", "--role", "root")
    assert said.code == 2
    assert "'view', 'operate', 'administer'" in said.err

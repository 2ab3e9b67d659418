"""Roles of the endpoints: the table has every row of the endpoint table."""

import pytest

from controlplane.rest.endpoints.router import ENDPOINTS as TABLE
from controlplane.rest.security.roles import NEEDS, Role, needed

CHANGES = {
    "PUT connectors/{}/pause": Role.OPERATE,
    "PUT connectors/{}/resume": Role.OPERATE,
    "PUT connectors/{}/stop": Role.OPERATE,
    "POST connectors/{}/restart": Role.OPERATE,
    "POST connectors/{}/tasks/{}/restart": Role.OPERATE,
    "PUT connector-plugins/{}/config/validate": Role.VIEW,
}
"""Endpoints with a lower role than their method implies."""

ENDPOINTS = sorted({f"{row.method} {'/'.join(row.template)}" for row in TABLE})


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_every_endpoint_needs_its_role(endpoint: str) -> None:
    """Reading takes VIEW, starting and stopping OPERATE, everything else ADMINISTER."""
    method, _, template = endpoint.partition(" ")
    path = tuple(template.replace("{}", "x").split("/")) if template else ()
    usual = Role.VIEW if method == "GET" else Role.ADMINISTER
    assert needed(method, path) is CHANGES.get(endpoint, usual)


def test_each_role_row_is_about_an_existing_endpoint() -> None:
    """The endpoint table has each method and path of `NEEDS`."""
    assert {f"{method} {'/'.join(template)}" for method, template in NEEDS} <= {*ENDPOINTS}


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE", "BREW", "get", ""])
def test_unknown_paths_take_the_highest_role(method: str) -> None:
    """An unknown path needs the highest role, also if it resembles a known path."""
    for path in ((), ("",), ("nix",), ("connectors", "a/pause"), ("connectors", "a", "pause", "")):
        assert needed(method, path) is Role.ADMINISTER


def test_head_needs_the_role_of_get() -> None:
    """HEAD needs the role of GET, since its length reveals as much."""
    assert needed("HEAD", ("connectors",)) is needed("OPTIONS", ("connectors",)) is Role.VIEW


def test_roles_build_on_each_other() -> None:
    """Role names ignore case; each role includes the roles below it."""
    assert [Role.of(name) for name in ("View", "OPERATE", "administer")] == sorted(Role)
    assert str(Role.OPERATE) == "operate"

"""Authentication by password, token and trusted proxy, roles, and refusals."""

import asyncio
import hashlib
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from controlplane.core.text.redaction import redacted_refusal
from controlplane.plane import ControlPlane
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.security.credential_hashes import Hash, TokenHash
from controlplane.rest.security.middleware import Protection, protected
from controlplane.rest.security.roles import Role
from controlplane.rest.security.settings import AuthSettings
from controlplane.settings.errors import SettingsError
from tests.rest.security.guarded_app import (
    NAMES,
    TOKENS,
    auth_settings,
    cheap,
    guarded,
    write_credentials,
)

CHALLENGES = 'Basic realm="controlplane", charset="UTF-8", Bearer realm="controlplane"'
JSON_BODY = {"content-type": "application/json"}
CONNECTS_TEXT = "User cannot access the resource."


def basic(name: str, password: str, encoding: str = "utf-8") -> dict[str, str]:
    """Return the header of HTTP basic authentication."""
    return {"authorization": "Basic " + b64encode(f"{name}:{password}".encode(encoding)).decode()}


def bearer(name: str) -> dict[str, str]:
    """Authorization header with the user's token."""
    return {"authorization": f"Bearer {TOKENS[name]}"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a plane with password and token files."""
    async with guarded(Protection(auth_settings(tmp_path))) as client:
        yield client


async def test_a_token_is_hashed_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long token of a stranger does not cost a hash for each token of the file."""
    hashed: list[str] = []
    hash_of = TokenHash.of

    def counted(token: str) -> TokenHash:
        hashed.append(token)
        return hash_of(token)

    monkeypatch.setattr(TokenHash, "of", counted)
    answer = await client.get("/connectors", headers={"authorization": "Bearer stranger"})
    assert answer.status_code == 401
    assert hashed == ["stranger"]


async def test_known_users_are_let_in(client: httpx.AsyncClient) -> None:
    """Password or token is enough; the scheme may be in capitals, with several spaces after it."""
    scheme, proof = basic("vera", "vera")["authorization"].split()
    for headers in (
        basic("vera", "vera"),
        bearer("vera"),
        {"authorization": f"{scheme.upper()}  {proof} "},
        {"authorization": f"bearer {TOKENS['vera']}"},
    ):
        for _ in range(2):  # a remembered password is accepted, too
            assert (await client.get("/connectors", headers=headers)).json() == []


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_names_of_any_script_are_accepted(tmp_path: Path, encoding: str) -> None:
    """A password header may be encoded in UTF-8, or in Latin-1 by older clients."""
    file = write_credentials(tmp_path / "passwords", {"ü": cheap("ß")}, {"ü": Role.VIEW})
    async with guarded(Protection(AuthSettings(password_file=file))) as client:
        answer = await client.get("/connectors", headers=basic("ü", "ß", encoding))
        assert answer.status_code == 200


async def test_a_password_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right password is hashed once, since scrypt is slow; wrong and changed ones each time."""
    computed = []
    scrypt = hashlib.scrypt

    def counting(password: bytes, **parameters: Any) -> bytes:
        computed.append(password)
        return scrypt(password, **parameters)

    monkeypatch.setattr(hashlib, "scrypt", counting)
    settings = auth_settings(tmp_path)
    computed.clear()
    async with guarded(Protection(settings)) as client:
        for password in ("vera", "vera", "x", "x", "vera"):
            await client.get("/connectors", headers=basic("vera", password))
        assert computed == [b"vera", b"x", b"x"]
        await client.get("/connectors", headers=basic("nobody", "vera"))
        assert computed.pop() == b"vera"
        write_credentials(tmp_path / "passwords", {"vera": cheap("changed")})
        refused = await client.get("/connectors", headers=basic("vera", "vera"))
        assert refused.status_code == 401


async def test_a_failed_login_costs_the_same_whoever_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed login takes equal time for every name, even if the hashes differ in cost."""
    costs: list[tuple[int, int, int]] = []
    scrypt = hashlib.scrypt

    def counting(password: bytes, **parameters: Any) -> bytes:
        costs.append((parameters["n"], parameters["r"], parameters["p"]))
        return scrypt(password, **parameters)

    hashes: dict[str, Hash] = {}
    for name, cost, lanes in (("vera", 1, 1), ("otto", 5, 1), ("ada", 5, 3), ("eva", 5, 1)):
        made = cheap(name)._replace(cost_log2=cost, lanes=lanes)
        hashes[name] = made._replace(digest=made.digest_of(name))
    file = write_credentials(tmp_path / "passwords", hashes, dict.fromkeys(hashes, Role.VIEW))
    monkeypatch.setattr(hashlib, "scrypt", counting)
    taken = set()
    async with guarded(Protection(AuthSettings(password_file=file))) as client:
        for name in (*hashes, "nobody", ""):
            costs.clear()
            answer = await client.get("/connectors", headers=basic(name, "wrong"))
            assert answer.status_code == 401
            taken.add(tuple(sorted(costs)))
        assert taken == {((2, 1, 1), (32, 1, 1), (32, 1, 3))}
        for name in hashes:
            answer = await client.get("/connectors", headers=basic(name, name))
            assert answer.status_code == 200


async def test_passwords_above_the_limit_get_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Passwords above the limit get 503; known passwords and tokens do not wait."""
    let, begun = threading.Event(), threading.Semaphore(0)
    scrypt = hashlib.scrypt

    def waiting(password: bytes, **parameters: Any) -> bytes:
        begun.release()
        let.wait(60)
        return scrypt(password, **parameters)

    limits = HttpLimits(verifications_max=1, verifications_waiting_max=2)
    async with guarded(Protection(auth_settings(tmp_path), limits)) as client:
        assert (await client.get("/connectors", headers=basic("ada", "ada"))).status_code == 200
        monkeypatch.setattr(hashlib, "scrypt", waiting)
        asking = [
            asyncio.create_task(client.get("/connectors", headers=basic(name, name)))
            for name in ("vera", "otto")
        ]
        await asyncio.to_thread(begun.acquire)
        busy = await client.get("/connectors", headers=basic("nobody", "x"))
        assert busy.status_code == 503
        assert busy.headers["retry-after"] == "1"
        for headers in (basic("ada", "ada"), bearer("vera")):
            assert (await client.get("/connectors", headers=headers)).status_code == 200
        let.set()
        assert [(await task).status_code for task in asking] == [200, 200]


UNKNOWN_TOKEN = "the request has an unknown token"
WRONG = {
    "no credentials": ({}, "the request has no credentials"),
    "wrong password": (basic("vera", "otto"), "the name or the password is wrong"),
    "unknown user": (basic("nobody", "vera"), "the name or the password is wrong"),
    "no colon": ({"authorization": "Basic dmVyYQ=="}, "the name or the password is wrong"),
    "no Base64": ({"authorization": "Basic !!"}, "is not Base64"),
    "wrong token": ({"authorization": "Bearer token-of-nobody"}, UNKNOWN_TOKEN),
    "empty token": ({"authorization": "Bearer "}, UNKNOWN_TOKEN),
    "password as token": ({"authorization": "Bearer vera"}, UNKNOWN_TOKEN),
    "another scheme": (
        {"authorization": "Digest username=vera"},
        "the scheme of the header Authorization is not accepted",
    ),
    "empty": ({"authorization": ""}, "the scheme of the header Authorization is not accepted"),
    "a proxy's header": ({"x-forwarded-user": "ada"}, "the request has no credentials"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_refusals_at_the_root_do_not_show_which_paths_exist(
    client: httpx.AsyncClient, case: str
) -> None:
    """At the root, existing and missing paths are refused alike, with a challenge."""
    headers, reason = WRONG[case]
    answers = [
        await client.request(method, path, headers=headers)
        for method, path in (
            ("GET", "/"),
            ("GET", "/connectors/x"),
            ("GET", "/nowhere"),
            ("BREW", "/connectors"),
            ("DELETE", "/connectors/x"),
            ("GET", "/connectors/a%2Fb?profile=4.3"),
        )
    ]
    for answer in answers:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == CHALLENGES
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {"error_code": 401, "message": answer.json()["message"]}
        assert answer.json()["message"].startswith("Log in first: ")
        assert reason in answer.json()["message"]
        # The command line hides secrets in a refusal: no word of it may look like one.
        assert redacted_refusal(answer.json()["message"]) == answer.json()["message"]
    assert len({answer.text for answer in answers}) == 1


async def test_head_is_refused_without_a_body(client: httpx.AsyncClient) -> None:
    """The refusal of a HEAD has no body."""
    answer = await client.head("/connectors")
    assert (answer.status_code, answer.content) == (401, b"")


async def test_two_authorization_headers_are_refused(client: httpx.AsyncClient) -> None:
    """A request with two Authorization headers is refused: a proxy may have checked either one."""
    sent = [("authorization", f"Bearer {TOKENS[name]}") for name in ("vera", "ada")]
    answer = await client.get("/connectors", headers=sent)
    assert answer.status_code == 401
    assert "2 times" in answer.json()["message"]


REQUESTS = {
    ("GET", "/connectors"): Role.VIEW,
    ("GET", "/nowhere"): Role.VIEW,
    ("PUT", "/connectors/x/pause"): Role.OPERATE,
    ("PUT", "/connectors/x/stop/"): Role.OPERATE,
    ("POST", "/connectors/x;a=b/restart?includeTasks=true"): Role.OPERATE,
    ("POST", "/compat/3.9/connectors/x/restart"): Role.OPERATE,
    ("PUT", "/connectors/x%2Fpause"): Role.ADMINISTER,
    ("DELETE", "/connectors/x"): Role.ADMINISTER,
    ("DELETE", "/connectors/x?dry_run=true"): Role.ADMINISTER,
    ("DELETE", "/compat/3.9/connectors/x"): Role.ADMINISTER,
    ("POST", "/connectors/x/undo?to=config@1"): Role.ADMINISTER,
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("method", "path"), REQUESTS, ids=lambda part: part.replace("/", " "))
async def test_a_role_allows_its_requests_and_those_below(
    client: httpx.AsyncClient, name: str, method: str, path: str
) -> None:
    """A user may do what the role allows, and the roles below it."""
    answer = await client.request(method, path, headers=bearer(name))
    role = REQUESTS[method, path]
    assert (answer.status_code == 403) is (NAMES[name] < role)
    if answer.status_code == 403:
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {
            "error_code": 403,
            "message": f"{name} has the role {NAMES[name]}, but this needs the role {role}",
        }


async def test_the_principal_is_on_record(tmp_path: Path) -> None:
    """The audit trail has the user's name."""
    async with ControlPlane.open("memory:") as plane:
        app = protected(plane.app, Protection(auth_settings(tmp_path)))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            body = {"name": "x", "config": {"connector.class": "FileStreamSource", "topic": "t"}}
            headers = bearer("ada") | {"idempotency-key": "once"}
            created = await client.post("/connectors", json=body, headers=headers)
            assert created.status_code == 201, created.text
        accepted = plane.state.commands["once"].accepted
        assert accepted is not None
        assert accepted.principal == "ada"


async def test_roles_are_the_same_beneath_a_mount(tmp_path: Path) -> None:
    """Beneath a mount, the roles are the same: the mount is no part of a path."""
    async with ControlPlane.open("memory:") as plane:
        inner = protected(plane.app, Protection(auth_settings(tmp_path)))
        transport = httpx.ASGITransport(Starlette(routes=[Mount("/connect", inner)]))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            for method, path, name, status in (
                ("GET", "/connect/connectors", None, 401),
                ("GET", "/connect/connectors", "vera", 200),
                ("PUT", "/connect/connectors/x/pause", "vera", 403),
                ("PUT", "/connect/connectors/x/pause", "otto", 404),
                ("DELETE", "/connect/connectors/x", "otto", 403),
                ("GET", "/connect/compat/3.9/connectors", None, 401),
                ("GET", "/connect/health", None, 200),
            ):
                headers = bearer(name) if name else {}
                answer = await client.request(method, path, headers=headers)
                assert answer.status_code == status, (method, path, name)


# --- requests without a name --------------------------------------------------------------------


@pytest.mark.parametrize(("headers", "status"), [({}, 401), (basic("vera", "vera"), 403)])
async def test_a_large_body_without_rights_is_refused_unread(
    client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    """A request without the right to write is refused before its body is read."""
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(256):
            read += 1
            yield b"[" * 65_536

    refused = await client.post(
        "/compat/3.9.1/connectors", content=body(), headers=headers | JSON_BODY
    )
    assert (refused.status_code, read) == (status, 0)
    await client.post("/connectors", content=body(), headers=basic("ada", "ada") | JSON_BODY)
    assert read > 0


async def test_health_is_open_by_default(client: httpx.AsyncClient, tmp_path: Path) -> None:
    """Health is the only open path, and only for reading."""
    assert (await client.get("/health")).status_code == 200
    assert (await client.get("/compat/3.9.1/health")).status_code == 200
    assert (await client.delete("/health")).status_code == 401
    assert (await client.get("/health/x")).status_code == 401
    async with guarded(Protection(auth_settings(tmp_path, health_open=False))) as closed:
        assert (await closed.get("/health")).status_code == 401


async def test_requests_without_credentials_may_have_a_role(tmp_path: Path) -> None:
    """Requests without credentials get `anonymous_role`; wrong credentials are refused."""
    async with guarded(Protection(auth_settings(tmp_path, anonymous_role="view"))) as client:
        assert (await client.get("/connectors")).status_code == 200
        refused = await client.delete("/connectors/x")
        assert refused.status_code == 403
        assert refused.json()["message"].startswith("anonymous has the role view")
        assert (await client.get("/connectors", headers=basic("ada", "x"))).status_code == 401


async def test_without_authentication_every_client_is_allowed() -> None:
    """Without authentication every client may do everything: we listen on localhost only."""
    async with guarded(Protection()) as client:
        assert (await client.delete("/connectors/x")).status_code == 404


# --- as Connect's extension ---------------------------------------------------------------------


@pytest.mark.parametrize("case", sorted({*WRONG} - {"no Base64"}))
async def test_refusals_beneath_compat_have_connects_text(
    client: httpx.AsyncClient, case: str
) -> None:
    """Beneath `/compat` the refusal has Connect's text, without a challenge.

    As in Connect, the content type says JSON, and 404, 405, 406 and 415 come before 401.
    """
    base, headers = "/compat/3.9.1", WRONG[case][0]
    refused = await client.get(f"{base}/connectors", headers=headers)
    assert (refused.status_code, refused.text) == (401, CONNECTS_TEXT)
    assert refused.headers["content-type"] == "application/json"
    assert "www-authenticate" not in refused.headers
    options = await client.options(f"{base}/connectors", headers=headers)
    assert (options.status_code, options.text) == (401, CONNECTS_TEXT)
    assert options.headers["content-type"] == "text/plain"
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("DELETE", "/connectors", 405),
        ("PUT", "/connectors/x/pause", 401),
    ):
        answer = await client.request(method, base + path, headers=headers)
        assert answer.status_code == status
    for extra, status in (({"content-type": "text/plain"}, 415), ({"accept": "text/html"}, 406)):
        answer = await client.get(f"{base}/connectors", headers=headers | extra)
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("request_", "base", "status"),
    [
        ("PUT fence", "/compat/3.9.1", 400),
        ("POST tasks", "/compat/3.9.1", 400),
        ("PUT fence", "/compat/2.3.1", 404),
        ("POST tasks", "/compat/2.3.1", 401),
        ("PUT fence", "", 401),
        ("POST tasks", "", 401),
    ],
)
async def test_requests_between_workers_need_no_name(
    client: httpx.AsyncClient, request_: str, base: str, status: int
) -> None:
    """Beneath `/compat`, a request between workers needs a signature in place of a name.

    Releases before signatures require a name; so does the root.
    """
    method, path = request_.split()
    json = {"content-type": "application/json"}
    url = f"{base}/connectors/x/{path}"
    answer = await client.request(method, url, content=b"[]", headers=json)
    assert answer.status_code == status


async def test_an_unknown_release_is_refused(client: httpx.AsyncClient) -> None:
    """A path with an unknown release is refused: 401 without a name, 400 with one."""
    answer = await client.delete("/compat/nix/connectors/x")
    assert answer.status_code == 401
    answer = await client.get("/compat/nix/connectors", headers=bearer("vera"))
    assert answer.status_code == 400


# --- proxies ------------------------------------------------------------------------------------

PROXY = AuthSettings(
    proxy_header="X-Forwarded-User",
    proxy_addresses=("10.0.0.7", "fd00::/8"),
    proxy_role_header="X-Forwarded-Role",
)


@pytest.mark.parametrize(
    ("peer", "believed"),
    [
        ("10.0.0.7", True),
        ("::ffff:10.0.0.7", True),
        ("fd12::1", True),
        ("10.0.0.8", False),
        ("127.0.0.1", False),
        ("testclient", False),
        ("", False),
    ],
)
async def test_a_proxy_is_believed(peer: str, believed: bool) -> None:
    """A proxy is trusted by its address, never by a header that a client can send."""
    async with guarded(Protection(PROXY), peer=peer) as client:
        headers = {"x-forwarded-user": "ann", "x-forwarded-for": "10.0.0.7", "forwarded": "for=x"}
        answer = await client.get("/connectors", headers=headers)
        assert answer.status_code == (200 if believed else 401)
        assert (await client.get("/connectors")).status_code == 401


@pytest.mark.parametrize(
    ("role_headers", "status"),
    [({}, 403), ({"x-forwarded-role": "Operate"}, 404), ({"x-forwarded-role": "root"}, 401)],
)
async def test_the_role_header_of_a_proxy_decides(
    role_headers: dict[str, str], status: int
) -> None:
    """A request without a role header gets the lowest role; an unknown role is refused."""
    async with guarded(Protection(PROXY), peer="10.0.0.7") as client:
        headers = {"x-forwarded-user": "ann"} | role_headers
        answer = await client.put("/connectors/x/pause", headers=headers)
        assert answer.status_code == status


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_a_proxy_may_send_names_in_utf_8_or_latin_1(encoding: str) -> None:
    """A proxy's user name may be encoded in UTF-8 or Latin-1."""
    async with guarded(Protection(PROXY), peer="10.0.0.7") as client:
        name = {b"x-forwarded-user": "jörg".encode(encoding)}
        refused = await client.delete("/connectors/x", headers=name)
        assert refused.json()["message"].startswith("jörg has the role view")


async def test_two_user_headers_are_refused() -> None:
    """A request with two user headers is refused: the client may have sent one of them."""
    async with guarded(Protection(PROXY), peer="10.0.0.7") as client:
        sent = [("x-forwarded-user", "ada"), ("x-forwarded-user", "ann")]
        assert (await client.get("/connectors", headers=sent)).status_code == 401


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (AuthSettings(proxy_header="X-User"), "is set without auth.proxy.addresses"),
        (AuthSettings(proxy_header="X-User", proxy_addresses=("here",)), "'here'"),
        (AuthSettings(password_file="nowhere"), "nowhere cannot be read"),
    ],
)
async def test_incomplete_settings_are_refused(settings: AuthSettings, reason: str) -> None:
    """Incomplete or unreadable authentication settings are refused at the start."""
    with pytest.raises(SettingsError, match=reason):
        async with guarded(Protection(settings)):
            pass

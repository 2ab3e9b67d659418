"""CORS headers, and the extra headers of every answer."""

import re
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from controlplane.rest.security.headers import ExtraHeader, extra_headers
from controlplane.rest.security.middleware import Protection
from controlplane.settings.errors import SettingsError
from controlplane.settings.listeners import ResponseHeaderSettings
from tests.rest.security.guarded_app import auth_settings, guarded

PROTECTION = Protection(
    answers=ResponseHeaderSettings(
        access_control_allow_origin="http://elsewhere, https://*.example.org",
        access_control_allow_methods="GET,POST",
        response_http_headers_config="set X-Frame-Options: DENY, add Cache-Control: no-store",
    )
)
HERE, ELSEWHERE = "http://elsewhere", "http://other"
PREFLIGHT = {"origin": HERE, "access-control-request-method": "POST"}

JETTY_9 = {"access-control-allow-origin": HERE, "vary": "Origin"}
JETTY_9 |= {"access-control-allow-credentials": "true"}
JETTY_9_ASKED = JETTY_9 | {
    "access-control-max-age": "1800",
    "access-control-allow-methods": "GET,POST",
    "access-control-allow-headers": "X-Requested-With,Content-Type,Accept,Origin",
}
JETTY_12 = {"access-control-allow-origin": HERE, "vary": "Origin"}
JETTY_12_ASKED = JETTY_12 | {
    "access-control-max-age": "60",
    "access-control-allow-methods": "GET,POST",
    "access-control-allow-headers": "Content-Type",
}
VARIES = {"vary": "Origin"}


class CorsCase(NamedTuple):
    """A request as a browser sends it, and what a worker of a release answered."""

    release: str
    method: str
    path: str
    headers: dict[str, str]
    status: int
    answered_headers: dict[str, str]


CASES = [
    CorsCase("3.9.1", "GET", "/connectors", {"origin": HERE}, 200, JETTY_9),
    CorsCase("3.9.1", "GET", "/nowhere", {"origin": HERE}, 404, JETTY_9),
    CorsCase("3.9.1", "OPTIONS", "/connectors", {"origin": HERE}, 200, JETTY_9),
    CorsCase("3.9.1", "OPTIONS", "/connectors", PREFLIGHT, 200, JETTY_9_ASKED),
    CorsCase(
        "3.9.1",
        "OPTIONS",
        "/connectors/x",
        PREFLIGHT | {"access-control-request-method": "DELETE"},
        200,
        {},
    ),
    CorsCase(
        "3.9.1",
        "OPTIONS",
        "/connectors",
        PREFLIGHT | {"access-control-request-headers": "content-type, x-mine"},
        200,
        {},
    ),
    CorsCase("3.9.1", "GET", "/connectors", {"origin": ELSEWHERE}, 200, {}),
    CorsCase("3.9.1", "GET", "/connectors", {}, 200, {}),
    CorsCase("4.3.0", "GET", "/connectors", {"origin": HERE}, 200, JETTY_12),
    CorsCase("4.3.0", "OPTIONS", "/connectors", PREFLIGHT, 200, JETTY_12_ASKED),
    CorsCase(
        "4.3.0",
        "OPTIONS",
        "/connectors/x",
        PREFLIGHT | {"access-control-request-method": "DELETE"},
        200,
        JETTY_12_ASKED,
    ),
    CorsCase("4.3.0", "GET", "/connectors", {"origin": ELSEWHERE}, 200, VARIES),
    CorsCase("4.3.0", "GET", "/connectors", {}, 200, VARIES),
]


@pytest.mark.parametrize("case", CASES)
async def test_cors_headers_are_those_of_the_release(case: CorsCase) -> None:
    """The CORS headers equal those of a recorded worker (3.9.1: rows 1867 to 1878 of the probe)."""
    async with guarded(PROTECTION) as client:
        path = f"/compat/{case.release}{case.path}"
        answer = await client.request(case.method, path, headers=case.headers)
    assert answer.status_code == case.status
    assert _cross_origin(answer.headers) == case.answered_headers
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"


def _cross_origin(headers: httpx.Headers) -> dict[str, str]:
    named = ("access-control-", "vary")
    return {name: value for name, value in headers.items() if name.startswith(named)}


async def test_a_preflight_at_the_root_needs_no_credentials(tmp_path: Path) -> None:
    """An anonymous preflight shows the CORS settings only; the request itself needs credentials."""
    protection = PROTECTION._replace(auth=auth_settings(tmp_path))
    async with guarded(protection) as client:
        request_headers = {"access-control-request-headers": "authorization"}
        preflight = await client.options(
            "/connectors/x/config", headers=PREFLIGHT | request_headers
        )
        assert (preflight.status_code, preflight.content) == (204, b"")
        assert "Authorization" in preflight.headers["access-control-allow-headers"]
        refused = await client.get("/connectors", headers={"origin": HERE})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == HERE
        assert "access-control-allow-credentials" not in refused.headers
        of_connect = await client.options("/compat/3.9.1/connectors", headers=PREFLIGHT)
        assert of_connect.status_code == 401


@pytest.mark.parametrize(
    ("origin", "may"),
    [
        ("https://a.example.org", True),
        ("https://a.example.org.evil", False),
        ("https://xexample.org", False),
        ("http://elsewhere.", False),
        ("null", False),
    ],
)
async def test_the_star_is_the_only_wildcard_of_origins(origin: str, may: bool) -> None:
    """In a pattern, the star is the only wildcard."""
    async with guarded(PROTECTION) as client:
        answer = await client.get("/connectors", headers={"origin": origin})
        assert ("access-control-allow-origin" in answer.headers) is may


async def test_a_star_allows_every_origin() -> None:
    """With `*` alone the answer repeats the origin of the request."""
    protection = Protection(answers=ResponseHeaderSettings(access_control_allow_origin="*"))
    async with guarded(protection) as client:
        answer = await client.get("/compat/3.9.1/", headers={"origin": "http://any"})
        assert answer.headers["access-control-allow-origin"] == "http://any"
        assert "vary" not in answer.headers


async def test_without_settings_answers_have_no_cors_headers() -> None:
    """Without CORS settings no page of another origin may read an answer."""
    async with guarded(Protection()) as client:
        answer = await client.get("/connectors", headers={"origin": HERE})
        assert _cross_origin(answer.headers) == {}


FOREIGN = {
    "another host": ({"origin": ELSEWHERE}, 403),
    "a file": ({"origin": "null"}, 403),
    "an invalid origin": ({"origin": "nonsense://["}, 403),
    "an allowed origin": ({"origin": HERE}, 404),
    "the origin of the server": ({"origin": "http://connect"}, 404),
    "the origin of the server behind a proxy": (
        {"origin": "https://connect.example.com", "sec-fetch-site": "same-origin"},
        404,
    ),
    "another site by Sec-Fetch-Site": (
        {"origin": "http://connect", "sec-fetch-site": "cross-site"},
        403,
    ),
    "no headers of a browser": ({}, 404),
}


@pytest.mark.parametrize("base", ["", "/compat/3.9.1"])
@pytest.mark.parametrize("case", FOREIGN)
async def test_changes_from_foreign_origins_are_refused(case: str, base: str) -> None:
    """A changing request from a foreign origin is refused.

    Browsers send such a POST without a preflight, with the user's credentials.
    """
    headers, status = FOREIGN[case]
    async with guarded(PROTECTION) as client:
        restart = f"{base}/connectors/x/restart?includeTasks=true"
        assert (await client.post(restart, headers=headers)).status_code == status
        assert (await client.get(f"{base}/connectors", headers=headers)).status_code == 200


async def test_pages_of_other_hosts_change_nothing_by_default() -> None:
    """By default, a changing request from another host's page is refused.

    A browser of this machine reaches even services that listen on localhost only.
    """
    async with guarded(Protection()) as client:
        answer = await client.post("/connectors/x/restart", headers={"origin": HERE})
        assert answer.status_code == 403
        sentence = answer.json()["message"]
        assert sentence.startswith("A page of another host cannot change anything here: allow")


async def test_pages_of_the_server_have_no_extra_headers() -> None:
    """Extra headers go to answers of resources, not to server pages (probe row 1886)."""
    async with guarded(PROTECTION) as client:
        answer = await client.get("/compat/4.3.0/connectors/a%2Fb", headers={"origin": HERE})
        assert answer.status_code == 400
        assert "x-frame-options" not in answer.headers
        assert _cross_origin(answer.headers) == {}


EXTRA_HEADERS = {
    "": [],
    "set X-A: b": [ExtraHeader("x-a", "b", adds=False)],
    "set X-A: b ,": [ExtraHeader("x-a", "b", adds=False)],
    "add X-A:b ,  set X-C: d: e": [
        ExtraHeader("x-a", "b", adds=True),
        ExtraHeader("x-c", "d: e", adds=False),
    ],
    '"add Cache-Control: no-cache, no-store", set X-A: b': [
        ExtraHeader("cache-control", "no-cache, no-store", adds=True),
        ExtraHeader("x-a", "b", adds=False),
    ],
    "setDate Expires: 0": [ExtraHeader("expires", "Thu, 01 Jan 1970 00:00:00 GMT", adds=False)],
    "addDate Expires: 1000": [ExtraHeader("expires", "Thu, 01 Jan 1970 00:00:01 GMT", adds=True)],
}


@pytest.mark.parametrize("rule", EXTRA_HEADERS)
def test_extra_headers_are_set_by_rules(rule: str) -> None:
    """Header rules are read in the form of KIP-577."""
    assert extra_headers(rule) == EXTRA_HEADERS[rule]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("X-A: b", "has a malformed rule, number 1: use `set NAME: VALUE`"),
        ("put X-A: b", "use `set NAME: VALUE`"),
        ("set X A: b", "use `set NAME: VALUE`"),
        ("set X-A", "use `set NAME: VALUE`"),
        ("set X-A: b,, set X-B: c", "a malformed rule, number 2"),
        ("set X-A: b\r\nX-B: c", "use `set NAME: VALUE`"),
        ("set X-A: \u20ac", "Latin-1"),
        ('"set X-A: b', "quotation mark"),
        ("setDate Expires: soon", "a wrong date in rule number 1"),
        ("setDate Expires: 99999999999999999999", "a wrong date"),
    ],
)
def test_invalid_header_rules_are_refused(rule: str, reason: str) -> None:
    """An invalid header rule is refused with a reason; no value can break a header line."""
    with pytest.raises(SettingsError, match=re.escape(reason)):
        extra_headers(rule)


@pytest.mark.parametrize("rule", ["s3cret", '"s3cret', "set A: s3cret\u20ac", "setDate X: s3cret"])
def test_errors_of_header_rules_do_not_repeat_them(rule: str) -> None:
    """A config provider may have given the text, so it may be secret."""
    with pytest.raises(SettingsError) as refused:
        extra_headers(rule)
    assert "s3cret" not in str(refused.value)

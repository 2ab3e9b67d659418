"""Texts of clients are parsed in linear time.

Each text is parsed in its own process. A backtracking pattern would never return, and would block
all threads of the interpreter.
"""

import logging
import subprocess
import sys
from typing import cast

import pytest

from controlplane.core.commands import PutConfig, size_of
from controlplane.core.configdef.regex_errors import matches
from controlplane.logs.memory import MemoryLog
from controlplane.observe import silent
from controlplane.rest.http.server import log_refused_connections
from tests.controller.scene import plane_on
from tests.rest.plane import ORDERS, orders_plane
from tests.rest.served_history import catalogue, client_of

pytestmark = pytest.mark.slow

PATIENCE_S = 120
"""Seconds for one text. A backtracking pattern takes hours; a good one takes milliseconds."""

READS = {
    "an Accept header with blanks in a parameter": (
        "from controlplane.rest.requests import _ACCEPTED as pattern;"
        "assert pattern.fullmatch('a/b;c=' + ' ' * 7_900 + ';!') is None"
    ),
    "an Accept header with many parameters": (
        "from controlplane.rest.requests import _ACCEPTED as pattern;"
        "assert pattern.fullmatch('a/b' + ';c= ' * 1_900 + '=;!') is None"
    ),
    "a moment with many letters T": (
        "from controlplane.rest.requests import with_zone;"
        "assert with_zone('T' * 1_000_000) == 'T' * 1_000_000;"
        "assert with_zone('T' * 9 + '12:00 01:00') == 'T' * 9 + '12:00+01:00'"
    ),
    "an unclosed reference in the value of a secret": (
        "from controlplane.core.text.redaction import redacted_text as hide;"
        "assert ':' not in hide('password=${' + ':' * 250_000)[10:]"
    ),
    "an Origin header with many dots": (
        "from controlplane.rest.security.origins import AllowedOrigins as Allowed;"
        "allowed = Allowed(('https://*.*.*.*.example.com',));"
        "assert not allowed.has('https://' + 'a.' * 4_000);"
        "assert allowed.has('https://a.b.c.d.example.com')"
    ),
    "a fraction of a million digits": (
        "from controlplane.core.configdef.value_parser import _DOUBLE as pattern;"
        "assert pattern.fullmatch('1' * 1_000_000 + 'x') is None"
    ),
    "references of config providers without an end": (
        "from controlplane.settings.config_references import replace_references as replaced;"
        "texts = [start * 400_000 + end for start in ('${', '${a:', '${a:b:', 'a:${')"
        " for end in ('', '}')];"
        "assert [replaced(text, lambda reference: reference.text) for text in texts] == texts"
    ),
    "a list of topics with many spaces": (
        "from controlplane.core.validation.pattern_rules import TopicPatterns as patterns;"
        "assert patterns.of('include', 'a' + ' ' * 1_000_000 + 'b').patterns[0][-1] == 'b';"
        "assert patterns.of('include', 'a' + ' ,' * 500_000 + 'b').patterns[-1] == 'b'"
    ),
    "long patterns": (
        "from controlplane.core.validation.pattern_rules import TopicPatterns as patterns;"
        "from controlplane.core.configdef.regex_errors import matching_error, matches;"
        "long = [('a', 10**6), ('(a|', 300_000), ('[a-z]', 4_000), ('a?', 9_000)];"
        "long += [(r'\\PL', 6_000), ('[a' + r'\\PL' * 6_000 + ']', 1)];"
        "long += [('[' + r'\\pL&&' * 3_000 + 'a]', 1)];"
        "letters = ''.join(map(chr, range(300, 5_300)));"
        "[matches(text * count, letters) or matching_error(text * count) for text, count in long];"
        "patterns.of('include', 'a,' * 400_000 + 'a')._replace(key='k').joined"
    ),
    "topics.regex that can match in many ways": (
        "from controlplane.core.configdef.regex_errors import matches;"
        "assert not any(matches(one, 'a' * 60 + '!')"
        " for one in ('(a+)+', '(a|a)*', 'a?' * 60 + 'a' * 60, '.*.*.*.*.*.*.*b'));"
        "assert not matches(r'\\Q[\\E(a+)+]', '[' + 'a' * 60 + '!')"
    ),
}


@pytest.mark.parametrize("code", READS.values(), ids=READS)
def test_a_text_of_a_client_does_not_stop_the_server(code: str) -> None:
    """Each text is parsed or refused in time."""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("pattern", "text", "matched"),
    [
        ("orders-.*", "orders-dlq", True),
        ("(orders|users)-[*+]?.*", "users-dlq", True),
        (r"\w+\.dlq", "orders.dlq", True),
        ("(?:a|b)-.+", "c-1", False),
    ],
)
def test_an_ordinary_topics_regex_is_matched(pattern: str, text: str, *, matched: bool) -> None:
    """Groups, classes and a few quantifiers are matched."""
    assert matches(pattern, text) is matched


async def test_a_config_of_too_many_transformations_is_refused() -> None:
    """The number of transformations is limited: each adds 40 keys to a validation's answer."""
    path = "/connector-plugins/FileStreamSourceConnector/config/validate"
    async with orders_plane() as (_, client):
        for number, status in ((100, 200), (1_001, 413)):
            aliases = ",".join(f"t{at}" for at in range(number))
            for method, at in (("PUT", path), ("PATCH", "/connectors/orders/config")):
                answer = await client.request(method, at, json=ORDERS | {"transforms": aliases})
                assert (answer.status_code == 413) == (status == 413)


def test_the_size_of_a_config_counts_the_members_of_lists() -> None:
    """Each member of a list may be a transformation, so the limit counts members."""
    assert size_of(PutConfig("c", {"transforms": ",".join(["t"] * 500)})) >= 500
    assert size_of(PutConfig("c", {"topics.regex": cast("str", 5)})) == 1


async def test_after_the_end_commands_are_refused_in_connects_words() -> None:
    """After the shutdown a command gets 503 at `/`, and a worker's 500 beneath `/compat`."""
    async with plane_on(MemoryLog(), plugins=catalogue()) as plane:
        pass
    async with client_of(plane.app) as client:
        for base, status in (("", 503), ("/compat/3.9", 500)):
            answer = await client.post(f"{base}/connectors", json={"name": "n", "config": ORDERS})
            expected = {"error_code": status, "message": "Worker is shutting down"}
            assert (answer.status_code, answer.json()) == (status, expected)


async def test_refused_requests_are_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five refused requests produce one line in Uvicorn's log; other warnings are kept.

    The test first resets the logger, because other tests may have changed it.
    """
    refusing = logging.getLogger("uvicorn.error")
    caplog.set_level(logging.WARNING, refusing.name)
    for name, usual in (("filters", []), ("disabled", False), ("propagate", True)):
        monkeypatch.setattr(refusing, name, usual)
    log_refused_connections(silent())
    for _ in range(5):
        refusing.warning("Exceeded concurrency limit.")
    refusing.warning("something else")
    assert [record.message for record in caplog.records] == [
        "Exceeded concurrency limit.",
        "something else",
    ]

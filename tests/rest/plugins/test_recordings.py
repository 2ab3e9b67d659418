"""Recorded answers of many releases about plugins, configs and loggers: ours are equal.

Status, type and text are equal to the letter. The documentation of keys is equal where the
catalogue holds the documentation harvested from that release.
"""

import json
import logging

import httpx
import msgspec
import pytest

from controlplane import ControlPlane
from controlplane.logger_levels import Loggers, separate_hierarchy
from controlplane.observe import silent
from controlplane.plane import Settings, Surroundings
from controlplane.plugins import catalogued
from tests.conftest import sampled
from tests.harvested_catalogues import harvested_catalogue
from tests.rest.plugins.cases import APACHE, STRANGE, PluginRequest, cases
from tests.rest.plugins.recorder import RELEASES, WITHOUT_MIRROR
from tests.rest.plugins.recordings import PluginAnswer, plain, read
from tests.rest.served_history import client_of
from tests.validation.answers import CONNECTORS, WORKER
from tests.validation.test_recordings import MIRRORED_SINCE

MIRROR = f"{APACHE}mirror."
COMPARED = ("2.3.1", "2.8.2", "3.2.0", "3.4.1", "3.6.2", "3.9.1", "4.3.0")
"""Releases that `make test` compares; `make prove` compares all."""

DEFINED_SINCE = "3.2.0"
"""First release whose REST API shows the settings that a plugin defines."""

DIFFERENT = (
    (
        STRANGE,
        RELEASES[RELEASES.index(DEFINED_SINCE) :],
        "the class may exist in a worker; the catalogue has plugins only",
    ),
    (
        MIRROR,
        RELEASES[RELEASES.index(DEFINED_SINCE) : RELEASES.index(MIRRORED_SINCE)],
        "MirrorMaker's connectors shared one definition; ours has the keys of each one",
    ),
)
"""Parts of paths of requests that we answer differently, with releases and reason."""


def listed(release: str) -> list[dict[str, str]]:
    """Connectors that a worker of this release lists."""
    names = [
        name for name in CONNECTORS if release not in WITHOUT_MIRROR or not name.startswith(MIRROR)
    ]
    return [{"class": name} for name in names]


async def ours(release: str, catalogue: bytes) -> list[PluginAnswer]:
    """Our answers to all cases, in their order."""
    # The default level of Log4j 2 differs from that of Log4j 1.
    level = logging.ERROR if release.startswith("4") else logging.DEBUG
    around = Surroundings(
        catalogued(catalogue),
        notices=silent(),
        loggers=Loggers(lambda: 0, separate_hierarchy(level)),
    )
    settings = Settings(profile=release, worker=WORKER)
    opened = ControlPlane.open("memory:", settings, around)
    async with opened as plane, client_of(plane.app) as client:
        return [await _plugin_answer(client, case, release) for case in cases()]


async def _plugin_answer(
    client: httpx.AsyncClient, ask: PluginRequest, release: str
) -> PluginAnswer:
    body = msgspec.json.encode(ask.body) if ask.method == "PUT" else None
    headers = {"content-type": "application/json"} if body else {}
    target = f"/compat/{release}{ask.target}"
    answer = await client.request(ask.method, target, content=body, headers=headers)
    return plain(answer, release)


def test_every_case_is_recorded() -> None:
    """The file holds exactly these requests and releases (writer: `recorder`)."""
    requests = [PluginRequest(*json.loads(msgspec.json.encode(case))) for case in cases()]
    assert all([ask for ask, _ in read(release)] == requests for release in RELEASES)


@pytest.mark.parametrize("release", sampled(RELEASES, *COMPARED))
async def test_answers_equal_the_recorded_ones(release: str) -> None:
    """All answers but the listed ones are equal, apart from the documentation of keys."""
    answers = await ours(release, json.dumps(listed(release)).encode())
    own = [answer.without_documentation() for answer in answers]
    theirs = [(ask, answer.without_documentation()) for ask, answer in read(release)]
    differing = [
        ask for (ask, answer), own_answer in zip(theirs, own, strict=True) if own_answer != answer
    ]
    expected_parts = {part for part, releases, _ in DIFFERENT if release in releases}
    met = {part for part in expected_parts for ask in differing if part in ask.target}
    assert [ask for ask in differing if not any(part in ask.target for part in met)] == []
    assert met == expected_parts


@pytest.mark.prove
@pytest.mark.java
@pytest.mark.parametrize("release", RELEASES)
async def test_documentation_is_kafkas_with_a_harvested_catalogue(release: str) -> None:
    """Each answer is the worker's to the byte, also about MirrorMaker's old connectors.

    Answers about `STRANGE` are left out, as that class is no plugin.
    """
    own = await ours(release, harvested_catalogue(release))
    recorded = [
        (ask, theirs, own_answer)
        for (ask, theirs), own_answer in zip(read(release), own, strict=True)
        if STRANGE not in ask.target
    ]
    assert [
        (ask, theirs, own_answer) for ask, theirs, own_answer in recorded if own_answer != theirs
    ] == []
    assert any(theirs.documentation for _, theirs, _ in recorded)

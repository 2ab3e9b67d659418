"""A real Connect worker and our service give equal answers, or listed exceptions.

The catalogue is harvested from that worker, so the documentation of settings is equal, too.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from controlplane.plugins import catalogued
from tests.kafka.conftest import RELEASES, up
from tests.kafka.real_kafka import KafkaWorker
from tests.kafka.side_by_side import ComparedExchange, side_by_side
from tests.kafka.side_by_side_requests import script
from tests.kafka.worker_harvest import catalogue_of
from tests.rest.running_plane import running_plane_of

pytestmark = [pytest.mark.java, pytest.mark.broker]

LINES = ["one", "two"]
REQUESTS = 200
"""Number of requests that the script must have at least."""

LOGGERS = "a worker's loggers are those of its libraries, and here no file has set their levels"

_BOTH = {
    "GET /admin/loggers/root": LOGGERS,
}
_NEWER = {
    "GET /admin/loggers/nobody.logs.here": LOGGERS,
    "PUT /admin/loggers/nobody.logs.here": LOGGERS,
    "PUT /admin/loggers/nobody.logs.here?scope=cluster": LOGGERS,
}
EXCEPTIONS: Mapping[str, Mapping[str, str]] = {"3.9.1": _BOTH, "4.3.0": _BOTH | _NEWER}
"""Per release, the requests whose answers differ, with reasons. Equal answers fail the test."""


@pytest.mark.prove
@pytest.mark.parametrize("release", RELEASES)
async def test_answers_are_equal(
    release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both give equal statuses, relevant headers and bodies; exactly the exceptions differ."""
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in LINES), "ascii")
    excepted = EXCEPTIONS[release]
    async with up(release, tmp_path) as broker, KafkaWorker(release, broker) as worker:
        plugins = catalogued(await catalogue_of(worker))
        async with running_plane_of(release, plugins, {str(file): LINES}) as ours:
            exchanges = await side_by_side(worker, ours, script(str(file), release), excepted)
    differing = [exchange for exchange in exchanges if exchange.differences]
    with capsys.disabled():
        sys.stdout.write(f"\n{release}: {len(exchanges)} asked, {_summary(differing, excepted)}\n")
    unexplained = [exchange for exchange in differing if exchange.name not in excepted]
    assert not unexplained, "\n".join(map(_difference_text, unexplained))
    assert not excepted.keys() - {exchange.name for exchange in differing}
    assert len(exchanges) >= REQUESTS


def _summary(differing: Sequence[ComparedExchange], excepted: Mapping[str, str]) -> str:
    """Number of differing answers by reason."""
    reasons = Counter(excepted.get(exchange.name, "for no reason") for exchange in differing)
    return "; ".join(f"{number} differ: {reason}" for reason, number in reasons.most_common())


def _difference_text(exchange: ComparedExchange) -> str:
    return "\n  ".join(
        [f"{exchange.row.n} {exchange.name} {exchange.row.body or ''}"[:300], *exchange.differences]
    )

"""Replay of the probe: every request that it sent to a real worker 3.9.1 goes to our service.

The replay sends all nine worlds in order to `/compat/3.9.1`, byte for byte over a socket. Status,
compared headers and body must equal the recording; a table lists the exceptions with reasons. The
documentation of keys is compared with a catalogue that was harvested from Kafka's jars. Stand-ins
replace the connectors and tasks of those workers (`Runtime`) and their brokers
(`SimulatedBroker`).
"""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.documentation_digests import DIGEST
from tests.rest.probes.exceptions import EXCEPTIONS, REASONS
from tests.rest.probes.probe_replay import ProbeExchange, replay, worlds
from tests.rest.probes.rows import ProbeRow, rows

_DIGESTED = f'"documentation":"{DIGEST}'
WORLDS = list(worlds())
REQUESTS = 1_962


@pytest.mark.slow  # a process of its own parses large bodies
@pytest.mark.parametrize(("about", "rest"), WORLDS, ids=[about.world for about, _ in WORLDS])
async def test_only_excepted_answers_differ_from_the_workers(
    about: ProbeRow, rest: list[ProbeRow], record_property: Callable[[str, object], None]
) -> None:
    """Our answers equal the recorded ones, and every excepted answer differs."""
    exchanges, missed = await replay(about, rest)
    differing = {exchange.row.n for exchange in exchanges if exchange.differences}
    excepted = {row.n for row in rest if row.n in REASONS}
    # A plain dictionary: a worker process of pytest-xdist sends it to the reporting process.
    record_property("probe", dict(summary(exchanges)))
    assert [wait.n for wait in missed] == []
    wrong = [
        difference_text(exchange)
        for exchange in exchanges
        if exchange.row.n in differing - excepted
    ]
    assert not wrong, "\n".join(wrong)
    assert not excepted - differing, (
        f"these excepted answers equal the recorded ones: {sorted(excepted - differing)}"
    )


@pytest.mark.java
async def test_documentation_is_kafkas_with_a_harvested_catalogue() -> None:
    """With a harvested catalogue, answers that hold documentation equal the recorded ones."""
    request_count = 0
    for about, rest in WORLDS:
        compared = [row for row in rest if row.n not in REASONS]
        telling = [row for row in compared if _DIGESTED in (row.answer or "")]
        exchanges, _ = await replay(about, telling, harvested=True) if telling else ([], [])
        request_count += len(exchanges)
        assert [difference_text(exchange) for exchange in exchanges if exchange.differences] == []
    assert request_count > 0


def test_every_request_is_replayed() -> None:
    """No row is left out, and each exception is one request of the file."""
    request_numbers = {row.n for row in rows() if row.kind == "request"}
    replayed = [row.n for _, rest in WORLDS for row in rest if row.kind == "request"]
    assert len(request_numbers) == REQUESTS
    assert sorted(replayed) == sorted(request_numbers)
    assert {*REASONS} <= request_numbers
    assert len(REASONS) == sum(len([*row_numbers]) for row_numbers in EXCEPTIONS.values())


def summary(exchanges: list[ProbeExchange]) -> Counter[str]:
    """Number of differing answers by reason; the empty reason counts the equal ones."""
    return Counter(
        REASONS.get(exchange.row.n, "for no reason") if exchange.differences else ""
        for exchange in exchanges
    )


def difference_text(exchange: ProbeExchange) -> str:
    """A request whose answer differs, with the differences."""
    request_line = f"{exchange.row.n} {exchange.row.method} {exchange.row.path[:80]}"
    return "\n  ".join([request_line, *(line[:600] for line in exchange.differences)])

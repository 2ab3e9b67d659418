"""Large bodies: their cost is limited, and the event loop parses only short ones."""

import asyncio
import errno
import json
import os
import signal
import socket
import sys
from functools import partial
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.releases.profiles import Profile
from controlplane.rest import bodies
from controlplane.rest.bodies.body_processes import (
    PIECE_BYTES,
    PLAIN_BYTES,
    PROCESSES_MAX,
    THREAD_BYTES,
    BodyProcesses,
    _in_process,
    hand_over,
)
from controlplane.rest.bodies.fast_json import LargeBody, LargeBodyNotPlain
from controlplane.rest.endpoints.command_requests import PARSED_FIRST_BYTES
from controlplane.rest.errors import RestError, TooBusy
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.security.load_limits import LoadLimiter
from tests.operation_counts import operations
from tests.rest.plane import ORDERS, orders_plane

pytestmark = pytest.mark.slow

RELEASES = ("2.3", "2.8", "3.4", "3.9", "4.3", "kip")
INTERNAL = "/compat/3.9/connectors/orders/tasks"
JSON = {"content-type": "application/json"}


def odd_config(number: int) -> bytes:
    """A config that must be parsed token by token: its fractions keep their spelling."""
    return json.dumps({f"key{at}": 1.5 for at in range(number)}).encode()


def asking(method: str, path: str, body: bytes) -> int:
    """Operations of this process for a request to a plane, including the plane's start."""

    async def work() -> None:
        async with orders_plane() as (_, client):
            await client.request(method, path, content=body, headers=JSON)

    return operations(lambda: asyncio.run(work()))


def test_an_unsigned_request_costs_nothing_however_large_it_is() -> None:
    """A large request is refused before its body is parsed, because any client can send it."""
    sizes = [json.dumps([{"key": "value"}] * number).encode() for number in (1_000, 8_000)]
    small, large = (asking("POST", INTERNAL, body) for body in sizes)
    assert large < small + 100_000


async def test_faults_of_a_short_body_precede_its_signature() -> None:
    """A short body is parsed before its signature is checked; a long one is not."""
    async with orders_plane() as (_, client):
        short = await client.post(INTERNAL, content=b"{", headers=JSON)
        long = await client.post(INTERNAL, content=b"{" * (PARSED_FIRST_BYTES + 1), headers=JSON)
    assert short.status_code == 500
    assert (long.status_code, long.json()["message"]) == (
        400,
        "Internal request missing required signature",
    )


def test_a_large_odd_body_is_read_in_another_process() -> None:
    """Another process parses the body; the server's event loop is free meanwhile."""
    path = "/connector-plugins/FileStreamSource/config/validate"
    small, large = (asking("PUT", path, odd_config(number)) for number in (2_000, 16_000))
    assert large < small + 40 * 14_000  # reading a key here takes some 400 operations


async def test_a_large_odd_body_is_answered_as_a_small_one() -> None:
    """A large body gets the worker's error message, and its values keep their spelling."""
    path = "/connectors/orders/config"
    async with orders_plane() as (_, client):
        wrong = odd_config(3_000)[:-1]
        refused = await client.put(f"/compat/3.9{path}", content=wrong, headers=JSON)
        assert refused.status_code == 500
        assert refused.json()["message"].startswith("Unexpected end-of-input")
        config = odd_config(2_000)[:-1] + b"," + json.dumps(ORDERS).encode()[1:]
        assert len(config) > THREAD_BYTES
        done = await client.put(path, content=config, headers=JSON)
        assert done.json()["config"]["key1999"] == "1.5"


async def test_few_large_bodies_are_read_at_once() -> None:
    """A further large body is refused as too busy; a cancelled request ends its process."""
    processes = BodyProcesses()
    body = b" " * (PLAIN_BYTES + 1)
    reading = [asyncio.ensure_future(processes.read(len, body)) for _ in range(PROCESSES_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy):
        await processes.read(len, body)
    reading[0].cancel()
    results = await asyncio.gather(*reading, return_exceptions=True)
    assert results[1:] == [len(body)] * (PROCESSES_MAX - 1)
    assert await processes.read(len, body) == len(body)


async def test_a_killed_process_is_no_defect() -> None:
    """If the system kills the process that reads a body, the client may try again."""
    with pytest.raises(TooBusy, match="was killed by signal 9: try again"):
        await _in_process(partial(signal.raise_signal, signal.SIGKILL))


async def test_a_failed_process_is_no_defect() -> None:
    """If the process that reads a body fails, the client may try again."""
    with pytest.raises(TooBusy, match="failed with exit code 3: try again"):
        await _in_process(partial(sys.exit, 3))


async def test_a_process_that_cannot_start_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system starts no process for a body, the client may try again."""

    async def refusing(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refusing)
    with pytest.raises(TooBusy, match="Too many open files"):
        await BodyProcesses().read(len, bytes(PLAIN_BYTES + 1))


async def test_a_large_body_waits_for_a_process_that_does_not_read_yet() -> None:
    """A body is passed on piece by piece, as the process reads it."""
    ours, its = socket.socketpair()
    its.setblocking(False)
    _, writer = await asyncio.open_connection(sock=ours)
    job = bytes(32 * PIECE_BYTES)
    handing = asyncio.ensure_future(hand_over(writer, job))
    for _ in range(100):
        await asyncio.sleep(0)
    assert writer.transport.get_write_buffer_size() <= 2 * PIECE_BYTES
    loop, read = asyncio.get_running_loop(), 0
    while piece := await loop.sock_recv(its, PIECE_BYTES):
        read += len(piece)
    assert read == len(job)
    await handing
    its.close()


async def test_thousands_of_partitions_are_altered_in_one_request() -> None:
    """One request alters 5,000 partitions, as many as a large connector has."""
    offsets = [
        {"partition": {"filename": f"file-{at}"}, "offset": {"position": at}} for at in range(5_000)
    ]
    async with orders_plane() as (plane, client):
        await client.put("/connectors/orders/stop")
        done = await client.patch("/connectors/orders/offsets", json={"offsets": offsets})
        assert done.status_code == 200
        stored = (await client.get("/connectors/orders/offsets")).json()["offsets"]
        assert len(stored["source"]) == 5_000
        assert plane.failure is None


async def test_a_body_of_too_many_values_is_refused() -> None:
    """The limit counts values, not bytes, and is a setting."""
    messages: list[dict[str, Any]] = []
    error: RestError | None = None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal error
        try:
            while (await receive()).get("more_body"):
                pass
        except RestError as refused:
            error = refused

    async def sending(message: Any) -> None:
        messages.append(message)

    bounds = LoadLimiter(app, HttpLimits(body_max_values=100), Profile.of("kip"))
    for number, refused in ((99, False), (100, True)):
        error = None
        parts = iter([b"[" * 50, b"," * (number - 50)])

        async def receive(parts: Any = parts) -> Any:
            part = next(parts)
            return {"type": "http.request", "body": part, "more_body": b"[" in part}

        scope = {
            "type": "http",
            "method": "PUT",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "headers": [],
        }
        await bounds(scope, receive, sending)
        assert (error is not None) == refused
    assert "more than 100 values" in str(error)


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**65), 2**65), st.floats(), st.text(max_size=4)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("config", "name", "offsets", "a", "")), inner, max_size=4
        )
    ),
    max_leaves=12,
)
OFFSET = st.fixed_dictionaries(
    {}, optional={"partition": st.dictionaries(st.text(max_size=2), SCALARS), "offset": VALUES}
)
DOCUMENTS = st.one_of(
    VALUES,
    st.fixed_dictionaries({"offsets": st.lists(OFFSET, max_size=3)}),
    st.fixed_dictionaries({"name": SCALARS, "config": st.dictionaries(st.text(), SCALARS)}),
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """JSON documents, valid or slightly malformed, with repeated fields."""
    text = json.dumps(draw(DOCUMENTS), ensure_ascii=draw(st.booleans()))
    text = text.replace('"a"', draw(st.sampled_from(('"a"', '"config"', r'"\u0061"', '"\\""'))))
    text = text.replace("1", draw(st.sampled_from(("1", "-0", "01", "1e2", "1.0"))))
    return text.encode("utf-8", "surrogatepass") + draw(st.sampled_from((b"", b" ", b"x", b"{}")))


@given(documents(), st.sampled_from(RELEASES))
def test_plain_bodies_are_read_as_others(body: bytes, release: str) -> None:
    """The fast parser gives the same result as parsing token by token."""
    profile = Profile.of(release)
    readers = (bodies.create, bodies.config, bodies.patch, bodies.alteration, bodies.task_configs)
    for read in readers:
        try:
            plainly = outcome(read, LargeBody(body), profile)
        except LargeBodyNotPlain:
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bodies.fast_json, "BYTES_MAX", -1)
            assert outcome(read, body, profile) == plainly


@pytest.mark.parametrize("release", RELEASES)
def test_a_plain_large_body_is_read_by_the_fast_parser(release: str) -> None:
    """A plain body needs no process of its own: the fast parser reads it in any size."""
    plain = json.dumps({"connector.class": "A", **{f"key{at}": "v" for at in range(2_000)}})
    config = bodies.config(LargeBody(plain.encode()), Profile.of(release))
    assert config == json.loads(plain)


def outcome(read: Any, body: bytes, profile: Profile) -> Any:
    """The value of a body, or its error; number types differ."""
    try:
        return repr(read(body, profile))
    except RestError as refused:
        return refused.answer()

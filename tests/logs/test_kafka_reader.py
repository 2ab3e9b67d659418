"""The reader of a cluster, on bytes and sockets, without a broker."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.entry import Batch, ColumnBatch, Headers, batch_of
from controlplane.core.order import Ends
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.errors import RETRIABLE, topic_error
from controlplane.logs.kafka.protocol.read_requests import FetchedPartition
from controlplane.logs.kafka.reads.decoder import decode
from controlplane.logs.kafka.reads.frames import partition_frames
from controlplane.logs.kafka.reads.reader import KafkaReader, Retry
from controlplane.logs.log import LogCorrupt, LogError, LogNotUsable, LogUnavailable
from controlplane.settings.security import KafkaSecurity
from tests.patience import PATIENCE_S

AT = ("offsets", 3)
NO_PRODUCER = -1
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"
"""Keys of the control records that end a transaction: version, kind."""

CRC_AT, ATTRIBUTES_AT = 17, 21
CONTROL, APPEND_TIME = 0x20, 0x08
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(
    base: int,
    *values: bytes | None,
    producer: int = NO_PRODUCER,
    codec: int = 0,
    headers: Headers = (),
    attributes: int = 0,
    key: bytes | None = b"k",
) -> bytes:
    """A record batch as a broker sends it; timestamps count from the base offset."""
    builder = DefaultRecordBatchBuilder(2, codec, producer != NO_PRODUCER, producer, 0, 0, 1 << 20)
    for number, value in enumerate(values):
        builder.append(number, base + number, key, value, list(headers))
    made = builder.build()
    struct.pack_into(">q", made, 0, base)
    made[ATTRIBUTES_AT + 1] |= attributes
    return checked(made)


def marker(base: int, producer: int, kind: bytes) -> bytes:
    """The control batch that ends a transaction."""
    return batch(base, b"\0" * 6, producer=producer, attributes=CONTROL, key=kind)


def checked(made: bytearray) -> bytes:
    """Return a copy of the batch with a valid checksum."""
    struct.pack_into(">I", made, CRC_AT, calc_crc32c(bytes(made[ATTRIBUTES_AT:])))
    return bytes(made)


def read(
    records: bytes,
    start: int = 0,
    stop: int | None = None,
    aborted: tuple[tuple[int, int], ...] = (),
) -> Batch | None:
    """Batch that a reader decodes from `start` on; `aborted` as a broker lists it.

    Entries, last rows and entries by key of the batch must agree.
    """
    read_batch = decode(
        partition_frames(FetchedPartition(AT, 0, 0, 0, list(aborted), records), start), stop
    )
    if read_batch is None:
        return None
    for with_aborted in (True, False):
        expected = {
            entry.key: entry.value
            for entry in read_batch.entries()
            if with_aborted or not entry.aborted
        }
        last: dict[bytes | None, bytes | None] = {}
        read_batch.keep_last(last, aborted=with_aborted)
        assert last == expected
    for prefix in (b"", b"k", b"k1", b"no-such"):
        assert list(read_batch.entries_under(prefix)) == [
            entry for entry in read_batch.entries() if (entry.key or b"").startswith(prefix)
        ]
    return read_batch


def decoded(read_batch: Batch | None) -> ColumnBatch | None:
    """Return all columns of a batch; None without a batch."""
    return batch_of(list(read_batch.entries())) if read_batch else None


def places(read_batch: Batch | None) -> list[tuple[int, bool]]:
    """Offsets, and whether they are marked as aborted."""
    return [(entry.offset, entry.aborted) for entry in read_batch.entries()] if read_batch else []


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_batches_keep_all_fields(codec: int) -> None:
    """Batches of every codec keep all fields of their records."""
    headers: Headers = (("h", b"1"), ("h", None))
    read_batch = read(
        batch(5, b"a", None, b"", codec=codec, headers=headers) + batch(90, b"z" * 999, codec=codec)
    )
    assert decoded(read_batch) == ColumnBatch(
        *AT,
        offsets=[5, 6, 7, 90],
        timestamps=[5, 6, 7, 90],
        keys=[b"k"] * 4,
        values=[b"a", None, b"", b"z" * 999],
        headers=dict.fromkeys(range(3), headers),
    )


@pytest.mark.parametrize(
    ("start", "stop", "offsets"),
    [
        (0, None, [5, 6, 7, 9, 10]),
        (6, None, [6, 7, 9, 10]),
        (8, 10, [9]),
        (7, 9, [7]),
        (8, 9, []),
        (11, None, []),
    ],
)
def test_batches_are_cut_at_start_and_stop(
    start: int, stop: int | None, offsets: list[int]
) -> None:
    """A batch comes whole: the reader cuts records before the start and from the stop on."""
    read_batch = read(batch(5, b"a", b"b", b"c") + batch(9, b"d", b"e"), start, stop)
    assert [at for at, _ in places(read_batch)] == offsets


def test_sparse_columns_are_cut_too() -> None:
    """Headers and aborted marks stay with their records."""
    records = batch(0, b"a", b"b", producer=7, headers=(("h", b""),)) + batch(2, b"c")
    read_batch = read(records, 1, aborted=((7, 0),))
    assert read_batch is not None
    assert read_batch.headers == {0: (("h", b""),)}
    assert read_batch.aborted == {0}


def test_an_incomplete_batch_is_dropped() -> None:
    """An incomplete batch at the end is dropped: a broker cuts a full answer."""
    whole = batch(0, b"a")
    fetched = FetchedPartition(AT, 0, 0, 0, [], whole + batch(1, b"b")[:-1])
    taken = partition_frames(fetched, 0)
    assert taken.next_offset == 1
    assert places(decode(taken)) == [(0, False)]


def test_records_of_aborted_transactions_are_marked() -> None:
    """A producer's records are marked from the first offset listed up to its abort marker."""
    records = b"".join(
        (
            batch(0, b"a", producer=1),
            batch(1, b"b", producer=2),
            batch(2, b"c"),
            marker(3, 1, ABORT),
            batch(4, b"d", producer=1),
            batch(5, b"e", producer=2),
            marker(6, 2, COMMIT),
            marker(7, 1, ABORT),
            batch(8, b"f", producer=1),
            marker(9, 1, COMMIT),
        )
    )
    read_batch = read(records, aborted=((1, 4), (1, 0)))
    assert [at for at, aborted in places(read_batch) if aborted] == [0, 4]
    assert [at for at, aborted in places(read_batch) if not aborted] == [1, 2, 5, 8]


def test_reading_begins_inside_of_an_aborted_transaction() -> None:
    """The first offset of an aborted transaction may precede the start of the read."""
    read_batch = read(batch(5, b"a", producer=1) + marker(6, 1, ABORT), 5, aborted=((1, 2),))
    assert places(read_batch) == [(5, True)]


def test_a_batch_of_markers_has_no_records() -> None:
    """A batch of markers gives no records; the read continues after it."""
    fetched = FetchedPartition(AT, 0, 0, 0, [(1, 0)], marker(3, 1, ABORT) + marker(4, 2, COMMIT))
    taken = partition_frames(fetched, 3)
    assert taken.next_offset == 5
    assert decode(taken) is None


def test_an_emptied_batch_is_passed() -> None:
    """Compaction may leave a batch without records; the reader passes its offsets."""
    emptied = bytearray(batch(4, b"gone", b"gone"))[:61]
    struct.pack_into(">i", emptied, 8, len(emptied) - 12)
    struct.pack_into(">i", emptied, 57, 0)
    taken = partition_frames(FetchedPartition(AT, 0, 0, 0, [], checked(emptied)), 4)
    assert taken.next_offset == 6
    assert decode(taken) is None


def test_records_have_the_time_of_the_broker() -> None:
    """A batch stamped by the broker gives all its records that time."""
    read_batch = read(batch(5, b"a", b"b", attributes=APPEND_TIME))
    assert read_batch is not None
    assert read_batch.timestamps == [6, 6]


@pytest.mark.parametrize(("magic", "timestamps"), [(0, [-1, -1]), (1, [100, 101])])
def test_old_formats_are_read(magic: int, timestamps: list[int]) -> None:
    """Records in formats before 0.11 are read; format 0 has no time."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 16)
    for offset in (0, 1):
        builder.append(offset, 100 + offset, b"k", b"v")
    read_batch = read(bytes(builder.build()))
    assert read_batch is not None
    assert (read_batch.offsets, read_batch.values, read_batch.timestamps) == (
        [0, 1],
        [b"v", b"v"],
        timestamps,
    )


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_entries_under_a_key_are_found(codec: int) -> None:
    """Keys that begin with the prefix are found, also where compression hides their bytes."""
    key = b"key-" * 100
    records = b"".join(
        batch(base, b"a", b"b", codec=codec, key=key)
        for base, key in ((0, key + b"1"), (2, b"-" + key), (4, None), (6, key + b"2"))
    )
    assert (key in records) == (not codec)
    read_batch = read(records)
    assert read_batch is not None
    for form in (read_batch, batch_of(list(read_batch.entries()))):
        assert [entry.offset for entry in form.entries_under(key)] == [0, 1, 6, 7]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_header_names_are_decoded_as_in_java(codec: int) -> None:
    """Header names are decoded as in Java; the rest of the batch is kept."""
    plain = batch(0, b"a", None, headers=(("AB", None), ("c", b"1")), codec=0)
    broken = bytearray(plain.replace(b"AB", b"\xffB"))
    if codec:
        broken = _compressed(broken, codec)
    read_batch = read(
        batch(0, b"first") + checked(broken).replace(plain[:8], struct.pack(">q", 1), 1)
    )
    assert read_batch is not None
    assert read_batch.values == [b"first", b"a", None]
    assert read_batch.timestamps == [0, 0, 1]
    assert read_batch.headers == dict.fromkeys((1, 2), (("\ufffdB", None), ("c", b"1")))


def test_a_number_of_many_bytes_is_damage() -> None:
    """The work on a number would grow with the square of its bytes, so there is a limit."""
    headers: Headers = (("AB", None),)
    broken = bytearray(batch(0, b"a", b"z" * 99, headers=headers).replace(b"AB", b"\xffB"))
    second = len(batch(0, b"a", headers=headers))
    broken[second : second + 20] = b"\xff" * 20
    with pytest.raises(LogCorrupt, match="a number has more than ten bytes"):
        read(checked(broken))


async def test_a_partition_that_is_added_during_a_read_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic gets a partition between the requests for its ends and for its starts."""
    answers = [{"t": [0]}, {"t": [0, 0]}, {"t": [0, 0]}]

    async def offsets(*_: object) -> Ends:
        return answers.pop(0)

    monkeypatch.setattr(KafkaReader, "_offsets", offsets)
    cluster = Cluster((("broker", 9092),), KafkaSecurity(), ReadLimits())
    reader = KafkaReader(cluster, "read_committed", ReadLimits(), None)
    assert [batch async for batch in reader.read(["t"])] == []
    assert not answers


def _compressed(made: bytearray, codec: int) -> bytearray:
    """Return a copy of the batch with its records compressed."""
    from aiokafka import codec as codecs  # noqa: PLC0415 - a global import would hide the argument `codec`

    name = next(name for name, number in CODECS.items() if number == codec)
    body = getattr(codecs, f"{name}_encode")(bytes(made[61:]))
    made = made[:61] + bytearray(body)
    made[ATTRIBUTES_AT + 1] |= codec
    struct.pack_into(">i", made, 8, len(made) - 12)
    return made


DAMAGED = st.integers(min_value=16, max_value=len(batch(0, b"value", b"other")) - 1)
"""Positions behind the frame of a batch (offset, length, leader epoch)."""


@given(at=DAMAGED, bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(at: int, bit: int) -> None:
    """Any flipped bit is noticed, except in the frame, which has no checksum."""
    damaged = bytearray(batch(0, b"value", b"other"))
    damaged[at] ^= 1 << bit
    with pytest.raises(LogCorrupt, match=r"topic offsets, partition 3: .*Nothing after it"):
        read(bytes(damaged))


@given(st.binary(max_size=200), st.sampled_from(sorted(CODECS.values())), st.integers(-2, 9))
def test_undecodable_records_raise_our_error(body: bytes, codec: int, count: int) -> None:
    """Undecodable records under a valid checksum raise an error of our own."""
    made = bytearray(batch(0, b"v"))[:61] + bytearray(body)
    made[ATTRIBUTES_AT + 1] |= codec
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">i", made, 57, count)
    with suppress(LogCorrupt):
        read_batch = read(checked(made))
        assert read_batch is None or len(read_batch) <= count


@given(st.integers(-20, 70), st.integers(-128, 127), st.binary(max_size=80))
def test_any_frame_raises_no_foreign_error(size: int, magic: int, rest: bytes) -> None:
    """Frames of any length and format raise no foreign error."""
    with suppress(LogCorrupt):
        read(struct.pack(">qiib", 0, size, 0, magic) + rest)


@given(st.binary(max_size=300))
def test_any_answer_raises_no_foreign_error(records: bytes) -> None:
    """Bytes that are no batches raise no foreign error."""
    with suppress(LogCorrupt):
        read(records)


def test_addresses_list_brokers() -> None:
    """Addresses list brokers by name or number; a missing port is the usual one."""
    assert addresses("a:1, b ,[::1]:2,[fe80::1]") == (
        ("a", 1),
        ("b", 9092),
        ("::1", 2),
        ("fe80::1", 9092),
    )


@pytest.mark.parametrize("bootstrap", ["", " , ", "host:", "host:port", ":9092", "a:0", "a:65536"])
async def test_an_address_list_without_a_broker_is_refused(bootstrap: str) -> None:
    """An empty list, a bad port and a missing host are refused with the form of an address."""
    with pytest.raises(LogNotUsable, match="give host:port"):
        await KafkaReader.open(bootstrap)


def test_every_error_code_has_a_sentence() -> None:
    """Each error code of a topic becomes a sentence."""
    for code in range(1, 130):
        error = topic_error("configs", code)
        assert str(error).startswith("topic configs ")
        assert isinstance(error, LogUnavailable) == (code in RETRIABLE)


QUICK = ReadLimits(connect_timeout_ms=300, request_timeout_ms=300)
UNHURRIED = ReadLimits(connect_timeout_ms=1_000 * PATIENCE_S, request_timeout_ms=1_000 * PATIENCE_S)
"""Limits for failures that come at once: a time-out would be another failure."""


async def test_an_unknown_host_is_named() -> None:
    """The error names the unknown host."""
    with pytest.raises(LogUnavailable, match=r"no-such-broker\.invalid.* does not resolve"):
        await KafkaReader.open("no-such-broker.invalid:9092", limits=UNHURRIED)


async def test_a_refused_connection_names_the_address(unused_tcp_port: int) -> None:
    """The error for a refused connection names the address."""
    with pytest.raises(LogUnavailable, match=f"no broker listens at 127.0.0.1:{unused_tcp_port}"):
        await KafkaReader.open(f"127.0.0.1:{unused_tcp_port}", limits=UNHURRIED)


ListenerBehaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(behaviour: ListenerBehaviour) -> AsyncIterator[str]:
    """Address of a listener that is no broker."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # the client has disconnected
            await behaviour(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


async def _silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the client disconnects


async def _goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def _web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    await writer.drain()


def _answering(payload: bytes) -> ListenerBehaviour:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(struct.pack(">i", len(payload)) + payload)
        await writer.drain()

    return answer


STRANGERS: dict[str, ListenerBehaviour] = {
    "silence": _silence,
    "goodbye": _goodbye,
    "web": _web,
    "empty": _answering(b""),
    "another answer": _answering(b"\0\0\0\7" * 4),
    "nonsense": _answering(b"\0\0\0\1" + b"\xff" * 40),
    "cut": _answering(b"\0\0\0\1\0\0\0\0\0\7"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_listener_that_is_no_broker_is_reported(stranger: str) -> None:
    """A listener that is no broker causes a `LogError` with its address, in time."""
    async with listening(STRANGERS[stranger]) as address:
        with pytest.raises(LogError, match=address):
            await KafkaReader.open(address, limits=QUICK)


@pytest.mark.parametrize("stranger", ["goodbye", "nonsense"])
async def test_a_server_other_than_kafka_is_reported(stranger: str) -> None:
    """The error names the settings to check."""
    async with listening(STRANGERS[stranger]) as address:
        with pytest.raises(LogError, match=r"check the address and security\.protocol"):
            await KafkaReader.open(address, limits=UNHURRIED)


PATIENT = ReadLimits(retry_backoff_ms=1, retry_backoff_max_ms=2, refusal_patience_ms=0)


async def test_outages_are_retried() -> None:
    """Outages are retried while patience lasts; a first refusal and damage are not."""
    outage, refusal, damage = LogUnavailable("out"), LogNotUsable("no"), LogCorrupt("bad")
    forever = Retry(PATIENT, None)
    for _ in range(5):
        await forever.after(outage, progress=0)
    for failure in (refusal, damage):
        with pytest.raises(type(failure)):
            await forever.after(failure, progress=0)
    with pytest.raises(LogUnavailable):
        await Retry(PATIENT, 0).after(outage, progress=0)


async def test_refusals_after_progress_are_doubted() -> None:
    """After progress, a refusal is retried for a while before it counts."""
    doubting = Retry(ReadLimits(retry_backoff_ms=1, refusal_patience_ms=60_000), None)
    await doubting.after(LogNotUsable("no"), progress=1)
    await doubting.after(LogNotUsable("no"), progress=1)
    with pytest.raises(LogCorrupt):
        await doubting.after(LogCorrupt("bad"), progress=2)

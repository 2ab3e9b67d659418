"""Connections to the brokers of one cluster, and who leads what."""

import asyncio
import logging
from collections.abc import Iterable
from ssl import SSLContext
from typing import Any

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError

from controlplane.logs.kafka.errors import connection_error, topic_error
from controlplane.logs.kafka.limits import Limits
from controlplane.logs.kafka.metadata import Layout, MetadataRequest, layout
from controlplane.logs.kafka.tls import tls_context
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable
from controlplane.security import KafkaSecurity

# What it logs as errors also arrives as exceptions, and those are told to people once.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())

CLIENT_ID = "controlplane"
DEFAULT_PORT = 9092

_CLOSED = "this reader is closed: open another"
_UNKNOWN_TOPIC, _NO_LEADER = 3, 5
_FAILURES = (KafkaError, OSError, NotImplementedError, ValueError, TypeError, AssertionError)
"""What aiokafka raises where a connection or a log-in fails, or an answer is none of Kafka's."""

Address = tuple[str, int]


def addresses(bootstrap: str) -> tuple[Address, ...]:
    """`host:port,host:port` as pairs; a port that is missing is 9092.

    Raises:
        LogNotUsable: not such a list.
    """
    found = tuple(_address(part.strip()) for part in bootstrap.split(",") if part.strip())
    if not found:
        raise LogNotUsable("no broker is named: give host:port")
    return found


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise LogNotUsable(f"{text!r} is no address of a broker: give host:port")
    return host.strip("[]"), int(port)


class Cluster:
    """Brokers, reached through one connection each. Every failure comes as a `LogError`.

    Requests of one connection are answered in order, so whoever waits long (a fetch) has a
    `Cluster` of its own: see `twin`.
    """

    def __init__(
        self,
        bootstrap: tuple[Address, ...],
        security: KafkaSecurity,
        limits: Limits,
        tls: SSLContext | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._limits = limits
        # Files of certificates are read once: they may be gone when a connection is.
        self._tls = tls or (tls_context(security.tls) if security.tls else None)
        self._connections: dict[Address, AIOKafkaConnection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._brokers: dict[int, Address] = {}
        self._closing: list[asyncio.Future[None]] = []
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def twin(self) -> "Cluster":
        """The same cluster through other connections."""
        return Cluster(self._bootstrap, self._security, self._limits, self._tls)

    async def layout(self, topics: Iterable[str] | None) -> Layout:
        """Brokers, and leaders of these topics (None: of all topics)."""
        found = layout(await self.ask(MetadataRequest(topics)))
        self._brokers = {**found.brokers}
        return found

    async def leaders(self, topics: Iterable[str]) -> Layout:
        """As `layout`, for topics that must all be there with a leader for each partition."""
        wanted = list(topics)
        found = await self.layout(wanted)
        for topic in wanted:
            if topic not in found.leaders:
                raise topic_error(topic, found.errors.get(topic, _UNKNOWN_TOPIC))
            if not all(leader in found.brokers for leader in found.leaders[topic].values()):
                raise topic_error(topic, _NO_LEADER)
        return found

    async def ask(self, request: Any) -> Any:
        """The answer of any broker: those connected are asked first, then those known."""
        known = dict.fromkeys((*self._connections, *self._bootstrap, *self._brokers.values()))
        trouble: LogError = LogUnavailable("no broker is known")
        for address in known:
            try:
                return await self._send(address, request)
            except LogUnavailable as failure:
                trouble = failure
        raise trouble

    async def send(self, broker: int, request: Any) -> Any:
        """The answer of one broker, by its id.

        Raises:
            LogUnavailable: it cannot be reached, or closed the connection.
            LogNotUsable: it refuses us.
        """
        return await self._send(self._brokers[broker], request)

    async def close(self) -> None:
        """Close every connection; nothing can be asked any more."""
        self._closed = True
        for address in [*self._connections]:
            self._forget(address)
        await self._all_closed(self._closing)

    async def _send(self, address: Address, request: Any) -> Any:
        """The answer of one broker. A connection that was idle may have been dropped: try anew."""
        reused = address in self._connections
        try:
            return await self._send_once(address, request)
        except LogUnavailable:
            if not reused:
                raise
        return await self._send_once(address, request)

    async def _send_once(self, address: Address, request: Any) -> Any:
        try:
            connection = await self._connection(address)
            return await connection.send(request)
        except _FAILURES as failure:
            self._forget(address)
            if self._closed:
                raise LogUnavailable(_CLOSED) from failure
            raise connection_error(_shown(address), failure) from failure

    async def _connection(self, address: Address) -> AIOKafkaConnection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            if self._closed:
                raise LogUnavailable(_CLOSED)
            connection = self._connections.get(address)
            if connection is None or not connection.connected():
                self._connections.pop(address, None)
                connection = self._connections[address] = await self._open(address)
            return connection

    async def _open(self, address: Address) -> AIOKafkaConnection:
        connection = AIOKafkaConnection(
            *address,
            client_id=CLIENT_ID,
            request_timeout_ms=self._limits.request_timeout_ms,
            security_protocol=self._security.protocol,
            ssl_context=self._tls,
            **_login(self._security),
        )
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                await connection.connect()
        except _FAILURES as failure:
            # Other errors of the system mean that there is no socket yet, and none to wait for.
            if not isinstance(failure, OSError) or isinstance(failure, TimeoutError):
                await self._all_closed([connection.close()])
            raise
        return connection

    def _forget(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            self._closing = [future for future in self._closing if not future.done()]
            self._closing.append(connection.close())

    async def _all_closed(self, closing: "list[asyncio.Future[None]]") -> None:
        """Sockets are closed a moment after they are told to: wait for it, but not for long."""
        if closing:
            await asyncio.wait([*closing], timeout=self._limits.close_timeout_ms / 1000)


def _shown(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _login(security: KafkaSecurity) -> dict[str, str]:
    if security.sasl is None:
        return {}
    return {
        "sasl_mechanism": security.sasl.mechanism,
        "sasl_plain_username": security.sasl.username,
        "sasl_plain_password": security.sasl.password.reveal(),
    }

"""Connections to the brokers of one cluster, and the leaders of partitions."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from ssl import SSLContext
from traceback import walk_tb
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator
from aiokafka.errors import KafkaError, SaslAuthenticationFailed

from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.kafka.protocol.errors import UnsendableRequest, connection_error, topic_error
from controlplane.logs.kafka.protocol.metadata import ClusterLayout, MetadataRequest, layout
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable
from controlplane.settings.security import KafkaSecurity, OAuthBearer, TokenCallback
from controlplane.tls.contexts import tls_context

# aiokafka logs errors that it also raises; the user should see each error once.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())

CLIENT_ID = "controlplane"
DEFAULT_PORT = 9092

_MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_CLOSED = "this reader is closed: open another"
_FAILURES = (
    LogNotUsable,
    KafkaError,
    OSError,
    NotImplementedError,
    ValueError,
    TypeError,
    AssertionError,
)
"""Errors that aiokafka raises for a failed connection or login, or for a malformed response.
`LogNotUsable` is the error of `_TokenProvider`, which aiokafka passes on."""

BrokerAddress = tuple[str, int]


def addresses(bootstrap: str) -> tuple[BrokerAddress, ...]:
    """Parse `host:port,host:port`; the default port is 9092.

    Raises:
        LogNotUsable: the text is not such a list.
    """
    addresses = tuple(_address(part.strip()) for part in bootstrap.split(",") if part.strip())
    if not addresses:
        raise LogNotUsable("no broker is named: give host:port")
    return addresses


def close_if_cancelled(client: AIOKafkaClient) -> None:
    """Let a client of aiokafka close its first connection if its start is cancelled.

    By itself, aiokafka leaves this connection open until the garbage collector finds it.
    """
    bootstrap = client.bootstrap

    async def closing_bootstrap() -> None:
        try:
            await bootstrap()
        except asyncio.CancelledError as cancellation:
            # Only a local variable of aiokafka's method holds the connection.
            for frame, _ in walk_tb(cancellation.__traceback__):
                if (connection := frame.f_locals.get("bootstrap_conn")) is not None:
                    connection.close()
            raise

    client.bootstrap = closing_bootstrap


def _address(text: str) -> BrokerAddress:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise LogNotUsable(f"{text!r} is no address of a broker: give host:port")
    return host.strip("[]"), int(port)


class _BrokerOpening:
    """Attempts to connect to one broker.

    Requests that wait for an attempt share its failure. Else they would wait one after the other
    for a broker that does not answer.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held during an attempt."""
        self.failure: Exception | None = None
        """Failure of the last attempt."""


class Cluster:
    """Brokers of a cluster, with one connection each. Every failure is raised as a `LogError`.

    A broker answers the requests of one connection in order. A fetch would delay other requests by
    up to `fetch_wait_ms`, so each stream of fetches uses its own `Cluster` (`twin`).
    """

    def __init__(
        self,
        bootstrap: tuple[BrokerAddress, ...],
        security: KafkaSecurity,
        limits: ReadLimits,
        tls: SSLContext | None = None,
        options: Mapping[str, Any] = {},
    ) -> None:
        """`options`: further options of aiokafka for clients of this cluster, such as client_id."""
        self._bootstrap = bootstrap
        self._options = {"client_id": CLIENT_ID, **options}
        self._security = security
        self._limits = limits
        # Certificates are read once: their files may be gone when a connection is reopened.
        self._tls = tls or (tls_context(security.tls) if security.tls else None)
        self._connections: dict[BrokerAddress, AIOKafkaConnection] = {}
        self._opening: dict[BrokerAddress, _BrokerOpening] = {}
        self._brokers: dict[int, BrokerAddress] = {}
        self._closing: list[asyncio.Future[None]] = []
        self._closed = False
        self.trouble: LogError | None = None
        """Failure of the most recent request; None if a broker answered it."""

    @property
    def client_options(self) -> dict[str, Any]:
        """Options for a client of aiokafka with the same brokers and access."""
        return {
            "bootstrap_servers": [_address_text(address) for address in self._bootstrap],
            **self._access,
            **self._options,
        }

    @property
    def _access(self) -> dict[str, Any]:
        return {
            "client_id": self._options["client_id"],
            "security_protocol": self._security.protocol,
            "ssl_context": self._tls,
            **_login(self._security),
        }

    @property
    def closed(self) -> bool:
        """True once `close` has been called."""
        return self._closed

    def twin(self, options: Mapping[str, Any] | None = None) -> "Cluster":
        """Return the same cluster with separate connections, and other options if given."""
        options = self._options if options is None else options
        return Cluster(self._bootstrap, self._security, self._limits, self._tls, options)

    async def layout(self, topics: Iterable[str] | None) -> ClusterLayout:
        """Request the brokers, and the leaders of these topics (None: all topics).

        Raises:
            LogUnavailable: no broker answers.
            LogNotUsable: a broker refuses the client.
        """
        new_layout = layout(await self.ask(MetadataRequest(topics)))
        self._brokers = {**new_layout.brokers}
        return new_layout

    async def leaders(self, topics: Iterable[str]) -> ClusterLayout:
        """Request the layout of topics that must exist and have a leader for each partition.

        Raises:
            NoLeader: a partition has no leader at the moment.
            LogNotUsable: a topic is missing, or this user may not see it.
        """
        topic_names = list(topics)
        current = await self.layout(topic_names)
        for topic in topic_names:
            if topic not in current.leaders:
                raise topic_error(topic, current.errors.get(topic, _MISSING))
            if not all(leader in current.brokers for leader in current.leaders[topic].values()):
                raise topic_error(topic, ErrorCode.LEADER_NOT_AVAILABLE)
        return current

    async def ask(self, request: Any) -> Any:
        """Return the answer of any broker; try connected brokers before other known ones.

        Raises:
            LogUnavailable: no broker answers. The error is that of the last broker.
            LogNotUsable: a broker refuses the client.
        """
        brokers = dict.fromkeys((*self._connections, *self._bootstrap, *self._brokers.values()))
        trouble: LogError = LogUnavailable("no broker is known")
        for address in brokers:
            try:
                return await self._send(address, request)
            except LogUnavailable as failure:
                trouble = failure
        raise trouble

    async def send(self, broker: int, request: Any) -> Any:
        """Return the answer of the broker with this id.

        Raises:
            LogUnavailable: the broker cannot be reached, or closed the connection.
            LogNotUsable: the broker refuses the client.
        """
        if broker not in self._brokers:
            await self.layout([])
        address = self._brokers.get(broker)
        if address is None:
            raise LogUnavailable(f"broker {broker} is not in the cluster at the moment: try again")
        return await self._send(address, request)

    async def send_to(self, address: BrokerAddress, request: Any) -> Any:
        """Return the answer of the broker at an address, as `send` does."""
        return await self._send(address, request)

    async def close(self) -> None:
        """Close all connections; later requests raise `LogUnavailable`."""
        self._closed = True
        for address in [*self._connections]:
            self._forget(address)
        await self._wait_for_sockets(self._closing)

    async def _send(self, address: BrokerAddress, request: Any) -> Any:
        """Return the answer of a broker; retry once after a failure on a reused connection.

        The connection may be dead: a broker closes idle ones (`connections.max.idle.ms`).
        """
        reused = address in self._connections
        try:
            return await self._send_once(address, request)
        except LogUnavailable:
            if not reused:
                raise
        return await self._send_once(address, request)

    async def _send_once(self, address: BrokerAddress, request: Any) -> Any:
        try:
            connection = await self._connection(address)
            response = await _sent(connection, request)
        except UnsendableRequest:  # the connection is as it was
            raise
        except _FAILURES as failure:
            self._forget(address)
            if self._closed:
                raise LogUnavailable(_CLOSED) from failure
            self.trouble = connection_error(_address_text(address), failure)
            raise self.trouble from failure
        self.trouble = None
        return response

    async def _connection(self, address: BrokerAddress) -> AIOKafkaConnection:
        opening = self._opening.setdefault(address, _BrokerOpening())
        has_waited = opening.lock.locked()
        async with opening.lock:
            if self._closed:
                raise LogUnavailable(_CLOSED)
            connection = self._connections.get(address)
            if connection is None or not connection.connected():
                self._connections.pop(address, None)
                if has_waited and opening.failure is not None:
                    raise opening.failure
                opening.failure = None
                try:
                    connection = await self._open(address)
                except _FAILURES as failure:
                    opening.failure = failure
                    raise
                if self.closed:  # meanwhile
                    await self._wait_for_sockets([connection.close()])
                    raise LogUnavailable(_CLOSED)
                self._connections[address] = connection
            return connection

    async def _open(self, address: BrokerAddress) -> AIOKafkaConnection:
        connection = _BrokerConnection(
            *address, request_timeout_ms=self._limits.request_timeout_ms, **self._access
        )
        try:
            async with asyncio.timeout(self._limits.connect_timeout_ms / 1000):
                await connection.connect()
        except _FAILURES as failure:
            # An `OSError` other than `TimeoutError` means that no socket was opened.
            if not isinstance(failure, OSError) or isinstance(failure, TimeoutError):
                await self._wait_for_sockets([connection.close()])
            raise
        return connection

    def _forget(self, address: BrokerAddress) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            self._closing = [future for future in self._closing if not future.done()]
            self._closing.append(connection.close())

    async def _wait_for_sockets(self, closing: "list[asyncio.Future[None]]") -> None:
        """Wait up to `close_timeout_ms` for sockets to close: `close` itself does not wait."""
        if closing:
            await asyncio.wait([*closing], timeout=self._limits.close_timeout_ms / 1000)


def _sent(connection: AIOKafkaConnection, request: Any) -> Awaitable[Any]:
    """Encode and send a request; return the answer to come."""
    try:
        answer: Awaitable[Any] = connection.send(request)
    except ValueError as failure:
        raise UnsendableRequest from failure
    return answer


def too_late(what: str, limits: WriteLimits, cluster: Cluster) -> LogUnavailable:
    """Build the error for brokers that did not finish `what` within `append_timeout_ms`.

    The error includes `cluster.trouble`, because aiokafka's producer does not report why it cannot
    reach a broker.
    """
    advice = "check them, and try again" if cluster.trouble is None else cluster.trouble
    late = f"the brokers did not {what} within {limits.append_timeout_ms} ms"
    return LogUnavailable(f"{late}: {advice}")


def _address_text(address: BrokerAddress) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _login(security: KafkaSecurity) -> dict[str, Any]:
    if security.sasl is None:
        return {}
    options = {"sasl_mechanism": security.sasl.mechanism}
    if isinstance(security.sasl, OAuthBearer):
        return {**options, "sasl_oauth_token_provider": _TokenProvider(security.sasl.token)}
    return {
        **options,
        "sasl_plain_username": security.sasl.username,
        "sasl_plain_password": security.sasl.password.reveal(),
    }


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Token provider for aiokafka that calls a callback for each token."""

    def __init__(self, callback: TokenCallback) -> None:
        self._callback = callback

    async def token(self) -> str:
        try:
            return await self._callback()
        except (OSError, ValueError) as failure:
            raise LogNotUsable(f"there is no token for the login: {failure}") from failure


class _TokenAuthenticator(OAuthAuthenticator):  # type: ignore[misc]
    """Token login that fails if the broker refuses the token.

    A broker refuses it by a payload, which aiokafka ignores.
    """

    async def step(self, payload: bytes | None) -> Any:
        if payload:
            raise SaslAuthenticationFailed
        return await super().step(payload)


class _BrokerConnection(AIOKafkaConnection):  # type: ignore[misc]
    """Connection whose login fails if the broker refuses the token."""

    def authenticator_oauth(self) -> _TokenAuthenticator:
        """Return a `_TokenAuthenticator` for one login."""
        return _TokenAuthenticator(sasl_oauth_token_provider=self._sasl_oauth_token_provider)

"""Translation of errors of brokers and sockets into errors of the log contract."""

import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

from aiokafka.errors import (
    BrokerResponseError,
    CorrelationIdError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
)

from controlplane.logs.kafka.protocol.error_codes import ErrorCode, described
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable

OFFSET_OUT_OF_RANGE = 1

RETRIABLE = frozenset({5, 6, 7, 8, 9, 13, 56, 72, 74, 75, 78, 100, 103})
"""Transient codes: no or another leader, a time-out, a broker that starts, a failed disk, a topic
that was recreated."""


class NoLeader(LogUnavailable):
    """A partition has no leader at the moment: a new topic, or a leader election."""


class UnsupportedRequest(LogNotUsable):
    """A broker supports no version of a request that this program can send."""


class UnsendableRequest(LogNotUsable):
    """A request has a value that Kafka's protocol cannot hold; nothing was sent."""

    def __init__(self) -> None:
        super().__init__(
            "a request to the brokers would contain a name of more than 32,767 bytes, half a "
            "surrogate pair, or a number that is too large: change it"
        )


class BatchTooLarge(LogNotUsable):
    """A topic refuses a record batch for its size; a part of its records may be small enough."""


class EpochChanged(LogUnavailable):
    """Another writer changed the epoch of the id while a new one was requested: request again."""


class _ErrorMeaning(NamedTuple):
    """Meaning of an error code for a topic: the class of error, and the rest of the sentence."""

    kind: type[LogError]
    words: str


_TOPIC_ERRORS = {
    OFFSET_OUT_OF_RANGE: _ErrorMeaning(
        LogNotUsable,
        "no longer has the next record (deleted, or the topic was recreated): read the topic from "
        "its start",
    ),
    2: _ErrorMeaning(
        LogNotUsable, "holds a record batch that its broker finds damaged: check its disk"
    ),
    3: _ErrorMeaning(LogNotUsable, "does not exist: check its name"),
    17: _ErrorMeaning(LogNotUsable, "has a name that no topic can have: check it"),
    29: _ErrorMeaning(LogNotUsable, "may not be read: allow this user READ and DESCRIBE on it"),
}
"""Error class and end of the message, by Kafka error code."""


def topic_error(topic: str, code: int) -> LogError:
    """Build the error for a broker's code about a topic or one of its partitions."""
    if code in RETRIABLE:
        return NoLeader(f"topic {topic} has no leader that answers just now: try again")
    unknown = _ErrorMeaning(
        LogNotUsable, f"cannot be read: its broker answers with error code {code}"
    )
    kind, words = _TOPIC_ERRORS.get(code, unknown)
    return kind(f"topic {topic} {words}")


def fetch_error(code: int) -> LogError:
    """Build the error for a fetch request that a broker refuses as a whole.

    In a session, such an answer names no partition. Kafka's consumer sends the request again.
    """
    return LogUnavailable(f"a broker refuses a fetch request: {described(code)}")


_TOO_LARGE = frozenset({10, 18})
"""Error codes of batches that are refused for their size."""

_REFUSALS = {
    2: "refuses a record batch that it finds damaged: try again",
    10: "refuses a record larger than its max.message.bytes: shorten it, or raise the limit",
    17: "has a name that no topic can have: check it",
    18: "refuses a record batch that is larger than its segment.bytes: raise the limit",
    29: "may not be written: allow this user WRITE and DESCRIBE on it",
    31: "may not be written: allow this user IDEMPOTENT_WRITE on the cluster",
    32: "refuses the time of a record: see its message.timestamp settings",
    43: "has a message format that is too old for transactions: upgrade it",
    44: "refuses the records: a policy of the brokers forbids them",
    76: "refuses the compression: its brokers do not support it",
    -1: "refuses the records (in a compacted topic, each needs a key): see its broker's log",
}
"""End of the message by error code, for refused records, which this program does not send again.
The library aiokafka maps every code above 79 to -1; here that means 87 (INVALID_RECORD)."""


def is_refusal(failure: BaseException) -> bool:
    """True if a broker has refused the records of an append."""
    return isinstance(failure, BrokerResponseError) and failure.errno in _REFUSALS


def append_error(topic: str, failure: BaseException) -> LogError:
    """Build the error for records that a broker has refused."""
    return write_error(topic, getattr(failure, "errno", -1))


def write_error(topic: str, code: int) -> LogError:
    """Build the error for a broker's code that refuses writes to a topic."""
    words = _REFUSALS.get(code) or f"cannot be written: {described(code)}"
    kind = BatchTooLarge if code in _TOO_LARGE else LogNotUsable
    return kind(f"topic {topic} {words}")


_REFUSED_ID = 53

OLD_EPOCH = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""Error codes that refuse a producer because its id has another epoch by now."""

_START_REFUSALS = {
    31: "may not be used: allow this user WRITE on the topics, or IDEMPOTENT_WRITE on the cluster",
    50: "has a time-out above the brokers' transaction.max.timeout.ms: lower "
    "writer.transaction.timeout.ms, or transaction.timeout.ms of a connector's producer",
    _REFUSED_ID: "may not be used: allow this user WRITE and DESCRIBE on this transactional id",
}
"""End of the message by error code, for a producer that the brokers refuse at its start."""


def start_error(transactional_id: str | None, failure: BaseException) -> LogError:
    """Build the error for a producer that cannot start.

    `transactional_id`: None for a producer without one.
    """
    code = getattr(failure, "errno", 0)
    words = _START_REFUSALS.get(code)
    producer = "the producer" if transactional_id is None else f"producer {transactional_id}"
    if code in OLD_EPOCH:
        return EpochChanged(
            f"{producer} cannot start, because other writers keep claiming its id: stop them"
        )
    if words is None:
        return LogUnavailable(f"{producer} cannot start ({failure!r}): check the brokers")
    name = producer if transactional_id is None else f"transactional.id {transactional_id}"
    return LogNotUsable(f"{name} {words}")


def is_refused_id(code: int) -> bool:
    """True if a user may not use a transactional id."""
    return code == _REFUSED_ID


def refused_id(transactional_id: str) -> LogNotUsable:
    """Build the error for a transactional id that this user may not use."""
    return LogNotUsable(f"transactional.id {transactional_id} {_START_REFUSALS[_REFUSED_ID]}")


def connection_error(broker: str, failure: BaseException) -> LogError:
    """Build the error for a failed connection, login or request; `broker` is `host:port`."""
    if isinstance(failure, LogError):
        return failure
    for kind, sentence in _CONNECTION_ERRORS:
        if isinstance(failure, kind):
            return sentence(broker, failure)
    reason = type(failure).__name__
    return LogUnavailable(f"broker {broker} cannot be reached ({reason}): check the address")


def _unresolved(broker: str, _: BaseException) -> LogError:
    return LogUnavailable(f"the name of broker {broker} does not resolve: check the address")


def _refused(broker: str, _: BaseException) -> LogError:
    return LogUnavailable(
        f"no broker listens at {broker} (connection refused): check address and broker"
    )


def _too_late(broker: str, _: BaseException) -> LogError:
    return LogUnavailable(
        f"broker {broker} does not answer in time: check the address and security.protocol"
    )


_EXPIRED = 10
"""OpenSSL's `verify_code` for an expired certificate."""


def _untrusted(broker: str, failure: BaseException) -> LogError:
    if getattr(failure, "verify_code", 0) == _EXPIRED:
        return LogNotUsable(
            f"the certificate of broker {broker} has expired: renew it there, or set the clock here"
        )
    reason = getattr(failure, "verify_message", "not trusted")
    return LogNotUsable(
        f"the certificate of broker {broker} is refused ({reason}): check the trust store"
    )


def _no_tls(broker: str, failure: BaseException) -> LogError:
    reason = getattr(failure, "reason", None) or "no TLS"
    return LogUnavailable(f"TLS with broker {broker} failed ({reason}): check security.protocol")


def _closed(broker: str, _: BaseException) -> LogError:
    return LogUnavailable(
        f"broker {broker} closed the connection: check the address and security.protocol, "
        "or try again if it is stopping"
    )


def _not_kafka(broker: str, _: BaseException) -> LogError:
    return LogUnavailable(
        f"the server at {broker} does not answer as a Kafka broker: "
        "check the address and security.protocol"
    )


def _too_old(broker: str, _: BaseException) -> LogError:
    return UnsupportedRequest(
        f"broker {broker} is too old, or too new, for this request: "
        "use Kafka 2.5 to 4 (to read only: 0.11 to 4)"
    )


_LOGIN_REFUSALS = {
    33: "does not offer the SASL mechanism asked for: check sasl.mechanism",
    34: "expects another login: check security.protocol",
    58: "refuses the name or the password, or the token: check them",
}
"""End of the message for a failed login, by Kafka error code."""


def _error_code(broker: str, failure: BaseException) -> LogError:
    code = getattr(failure, "errno", -1)
    words = _LOGIN_REFUSALS.get(code)
    if words is not None:
        return LogNotUsable(f"broker {broker} {words}")
    kind = LogUnavailable if code in RETRIABLE else LogNotUsable
    return kind(f"broker {broker} answers with error code {code}")


_CONNECTION_ERRORS: tuple[
    tuple[type[BaseException] | tuple[type[BaseException], ...], Callable[..., LogError]], ...
] = (
    (socket.gaierror, _unresolved),
    (ConnectionRefusedError, _refused),
    (TimeoutError, _too_late),
    (ssl.SSLCertVerificationError, _untrusted),
    (ssl.SSLError, _no_tls),
    (BrokerResponseError, _error_code),
    ((IncompatibleBrokerVersion, NotImplementedError), _too_old),
    ((KafkaConnectionError, CorrelationIdError, ConnectionError), _closed),
    ((ValueError, TypeError, AssertionError), _not_kafka),
)
"""Error classes of Python and aiokafka with the function that builds the `LogError`.

The first match wins. Any other failure means that the broker cannot be reached.
"""

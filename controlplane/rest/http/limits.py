"""Limits of the HTTP interface (`http.`)."""

import msgspec


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the HTTP interface, per client and in total."""

    body_max_bytes: int = 16_777_216
    """Maximum bytes of a request body. Connect has no limit. On Kafka a config has at most 1 MiB,
    the limit of a record. The offsets of many partitions in one request take some MiB."""

    body_discarded_bytes: int = 67_108_864
    """Bytes of a too large body that are read and dropped before the refusal. Most clients send a
    whole body before they read the answer. Otherwise, they would only see a broken connection."""

    body_max_values: int = 50_000
    """Maximum values of a request body, counted by commas and brackets. This bounds the work per
    request. The offset of one partition has six or seven, so 7,000 partitions fit."""

    head_max_bytes: int = 8_192
    """Maximum bytes of target and headers together: the limit of Jetty, Connect's server."""

    head_patience_ms: int = 30_000
    """Time limit for the headers of a request, as in Jetty."""

    body_patience_ms: int = 30_000
    """Time limit for the body, from the moment at which the application begins to read it."""

    answer_patience_ms: int = 30_000
    """Time limit for the client to read a part of the answer."""

    idle_ms: int = 75_000
    """Maximum idle time of a connection between two requests: longer than a scrape interval."""

    requests_max: int = 1_000
    """Concurrent requests; further ones get 503. Each may hold a body and wait for the log."""

    watches_max: int = 10_000
    """Concurrent watches (`GET /watch`); further ones get 503. Each costs some kB and lasts for
    hours. The changes that wait in its queue are shared with other watches."""

    connections_max: int = 12_000
    """Open connections, idle ones included; each is a file descriptor. While as many are open, a
    request on any connection gets 503, and its connection closes. Cached answers are still sent."""

    verifications_max: int = 2
    """Concurrent password verifications, at 16 MiB and some 50 ms of a core each. This also bounds
    the load of a guessing client."""

    verifications_waiting_max: int = 50
    """Passwords in verification or waiting for it, about one second's work; further ones get 503. A
    verified password or a token does not wait."""

    shutdown_ms: int = 1_000
    """Time limit for running answers when the service shuts down."""

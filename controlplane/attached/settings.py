"""Settings of an attached cluster: workers, credentials for them, time limits."""

from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.settings.security import Secret


class ConnectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Access to the workers of an attached cluster (`connect.`)."""

    url: tuple[str, ...] = ()
    """URLs of workers of one Connect cluster, such as http://w1:8083; empty: not attached."""

    user: Secret | None = None
    """NAME:PASSWORD for basic authentication at the workers."""

    token: Secret | None = None
    """Bearer token for the workers, or @FILE with one."""

    ca_file: str | None = None
    """PEM file with CA certificates that are trusted, and no others. None: those of `certifi`."""

    trail: str | None = None
    """Embedded log of our own that records every command: sqlite:///trail.db. None: in memory."""

    patience_ms: int = 30_000
    """Longest time in ms for further attempts while no worker has taken a request. A rebalance, or
    the restart of the only worker, ends within that time."""

    retry_ms: int = 250
    """Pause in ms between two attempts at all workers."""

    answer_timeout_ms: int = 100_000
    """Longest time in ms for a worker's answer; a worker itself gives up after 90 s."""

    connect_timeout_ms: int = 5_000
    """Longest time in ms to open a connection to a worker."""

    read_on_ms: int = 3_000
    """Longest time in ms that a read waits until this service has read the records of an answered
    command. By default, a Java worker waits equally long until it has caught up with the config
    topic (`worker.sync.timeout.ms`)."""

    records_ms: int = 5_000
    """Longest time in ms that planned records may take to appear after the worker's answer. A
    worker answers a reset of active topics before it writes."""

    release_check_ms: Annotated[int, Meta(ge=1)] = 60_000
    """Time in ms between two requests for the release of each worker. A rolling upgrade takes
    minutes, and one check costs one short request per worker."""

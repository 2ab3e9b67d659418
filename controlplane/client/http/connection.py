"""Finding whom to speak to: a worker behind a URL, or a log that is served in this process."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from controlplane.client.http.api import Api
from controlplane.client.http.cluster_address import ClusterAccess, ClusterAddress
from controlplane.terminal.command_errors import InputRefused

CONNECT_S = 5.0
ANSWER_S = 100.0
"""A worker gives up after 90 s, and then says so itself."""

LAST_PORT = 65_535


@asynccontextmanager
async def connected(
    cluster: ClusterAddress,
    need: ClusterAccess = ClusterAccess.READ,
    view: Mapping[str, str] | None = None,
) -> AsyncIterator[Api]:
    """The cluster, ready to be asked.

    Raises:
        InputRefused: it cannot be asked so.
        LogError: it is a log, and cannot be opened.
        Declined, Unavailable: it does not answer as Connect does.
    """
    if cluster.is_url:
        async with over_network(cluster) as client:
            yield await _met(client, cluster, view)
    else:
        cluster.check_scheme()
        from controlplane.client.http.in_process import in_process  # noqa: PLC0415 - a whole plane

        async with in_process(cluster.where, need) as client:
            yield await _met(client, cluster, view)


async def _met(
    client: httpx.AsyncClient, cluster: ClusterAddress, view: Mapping[str, str] | None
) -> Api:
    api = Api(client, cluster.shown, view)
    await api.meet()
    return api


def over_network(cluster: ClusterAddress, option: str = "--cluster") -> httpx.AsyncClient:
    """A client for the worker behind the URL that an option tells.

    Raises:
        InputRefused: the URL, the credentials or the certificates cannot be used.
    """
    try:
        return httpx.AsyncClient(
            base_url=_base(cluster.where),
            headers=cluster.credentials(),
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            verify=_trust(cluster),
        )
    except (httpx.InvalidURL, ValueError) as failure:
        raise InputRefused(f"{cluster.shown} is no URL ({failure}): check {option}") from None


def _base(where: str) -> httpx.URL:
    """The URL beneath which everything lies; ValueError: nobody can be reached by it."""
    url = httpx.URL(where)
    if not url.host:
        raise ValueError("it names no host")
    if (url.port or 0) > LAST_PORT:
        raise ValueError(f"ports end at {LAST_PORT}")
    return url


def _trust(cluster: ClusterAddress) -> ssl.SSLContext | bool:
    """TLS context that trusts the system's certificates and those of `--ca-file`."""
    if cluster.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=cluster.ca_file)
    except (OSError, ssl.SSLError) as failure:
        raise InputRefused(
            f"{cluster.ca_file} holds no certificates ({failure}): give a PEM file of the "
            "authority that has signed the server's"
        ) from None

"""Connection to a cluster: a worker behind a URL, or a log that this process serves."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from controlplane.client.http.api import Api
from controlplane.client.http.cluster_address import ClusterAccess, ClusterAddress
from controlplane.terminal.command_errors import InputRefused

CONNECT_S = 5.0
ANSWER_S = 100.0
"""Longest time in seconds for an answer: a worker itself times out after 90 s."""

LAST_PORT = 65_535


@asynccontextmanager
async def connected(
    cluster: ClusterAddress,
    need: ClusterAccess = ClusterAccess.READ,
    view: Mapping[str, str] | None = None,
    option: str = "--cluster",
) -> AsyncIterator[Api]:
    """Connect to a cluster, and identify its server; `option` has given the address.

    Raises:
        InputRefused: the address or the credentials cannot be used.
        LogError: the cluster is a log that cannot be opened.
        Declined, Unavailable: the server is no Connect worker, or does not answer.
    """
    if cluster.is_url:
        async with over_network(cluster, option) as client:
            yield await _identified_api(client, cluster, view, option)
    else:
        cluster.check_scheme()
        cluster.check_known_scheme()
        from controlplane.client.http.in_process import in_process  # noqa: PLC0415 - a whole plane

        async with in_process(cluster.where, need) as client:
            yield await _identified_api(client, cluster, view, option)


async def _identified_api(
    client: httpx.AsyncClient,
    cluster: ClusterAddress,
    view: Mapping[str, str] | None,
    option: str,
) -> Api:
    named_by = _NAMED_BY.get(option, option)
    api = Api(client, cluster.without_login, view, named_by=named_by, is_log=not cluster.is_url)
    await api.identify()
    return api


_NAMED_BY = {"--cluster": "--cluster, or the variable CONTROLPLANE_CLUSTER"}
"""Source of an address in errors, by option; any other option is named as it is."""


def over_network(
    cluster: ClusterAddress, option: str = "--cluster", answer_s: float = ANSWER_S
) -> httpx.AsyncClient:
    """Client for the worker behind a URL; `option` has given the URL.

    `answer_s`: longest time in seconds for an answer.

    Raises:
        InputRefused: the URL, the credentials or the certificates cannot be used.
    """
    try:
        return httpx.AsyncClient(
            base_url=_base(cluster.where),
            headers=cluster.credentials(),
            timeout=httpx.Timeout(answer_s, connect=min(answer_s, CONNECT_S)),
            verify=_trust(cluster),
        )
    except (httpx.InvalidURL, ValueError) as failure:
        raise InputRefused(
            f"{cluster.without_login} is no URL ({cluster.url_error(failure)}): check {option}"
        ) from None


def tls_of(cluster: ClusterAddress) -> ssl.SSLContext | None:
    """TLS context for the worker behind a URL, as `over_network` uses it; None: it has no TLS.

    Raises:
        InputRefused: the certificates cannot be used.
    """
    if not cluster.where.lower().startswith("https:"):
        return None
    return httpx.create_ssl_context(_trust(cluster))


def _base(where: str) -> httpx.URL:
    """Base URL of a worker; ValueError: it has no host, an invalid port, or a query."""
    url = httpx.URL(where)
    if b"?" in url.raw_path or url.fragment:
        raise ValueError("leave out ? or #, and what follows")
    if not url.host:
        raise ValueError("it names no host")
    if (url.port or 0) > LAST_PORT:
        raise ValueError(f"ports end at {LAST_PORT}")
    return url


def _trust(cluster: ClusterAddress) -> ssl.SSLContext | bool:
    """TLS context that trusts only the certificates of `--ca-file`; True: those of httpx.

    By default, httpx trusts the CA certificates of the package `certifi`.
    """
    if cluster.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=cluster.ca_file)
    except (OSError, ssl.SSLError) as failure:
        raise InputRefused(
            f"{cluster.ca_file} has no certificates ({failure}): give a PEM file with the "
            "certificate of the authority that signed the server's"
        ) from None

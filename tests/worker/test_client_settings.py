"""Settings of the clients of tasks: keys without effect are named."""

import pytest

from controlplane.worker.data_topics.client_settings import ClientKind, without_effect


@pytest.mark.parametrize(
    ("client", "ineffective"),
    [
        ("producer", ["fetch.min.bytes", "retries"]),
        ("consumer", ["retries"]),
        ("admin", ["fetch.min.bytes", "request.timeout.ms", "retries"]),
    ],
)
def test_keys_without_effect_are_named(client: ClientKind, ineffective: list[str]) -> None:
    """Settings of the access to a cluster have an effect on every client."""
    keys = ["request.timeout.ms", "sasl.mechanism", "retries", "fetch.min.bytes"]
    assert without_effect(client, keys) == ineffective

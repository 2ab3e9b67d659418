"""Key stores made by Java's keytool, used with real brokers."""

from pathlib import Path

import pytest

from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogNotUsable
from controlplane.settings import SettingsError
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.security import KafkaSecurity, Secret
from tests.kafka.certificates import PASSWORD
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]

FORMATS = {
    "today": (),
    "java-8": ("-J-Dkeystore.pkcs12.legacy",),
    "jks": ("-storetype", "JKS"),
}
"""Format of a store, and its options of keytool."""


def trusting(
    store: Path, password: str = PASSWORD, *, identity: Path | None = None
) -> KafkaSecurity:
    """TLS settings of a worker's file without store types, which are then JKS."""
    settings = AccessSettings(
        security_protocol="SSL",
        ssl_truststore_location=str(store),
        ssl_truststore_password=Secret(password),
        ssl_keystore_location=str(identity) if identity else None,
        ssl_keystore_password=Secret(PASSWORD),
    )
    return kafka_security(settings)


@pytest.mark.parametrize("form", FORMATS)
async def test_trust_stores_of_every_format_are_read(broker: Broker, topic: str, form: str) -> None:
    """Trust stores of every format that Java has written are read."""
    store = broker.certificates.trust_store(f"{form}.jks", *FORMATS[form])
    async with reading(broker.address("SSL"), security=trusting(store)) as reader:
        assert await reader.ends([topic]) == {topic: [0, 0, 0]}
    with pytest.raises(SettingsError, match=f"{form}.jks.* cannot be opened"):
        await KafkaReader.open(broker.address("SSL"), security=trusting(store, "wrong"))


async def test_one_store_holds_key_and_certificates(broker: Broker, topic: str) -> None:
    """One store holds the key and the trusted certificates; Bob's certificate has no read right."""
    store = broker.certificates.key_store("bob")
    security = trusting(store, identity=store)
    async with reading(broker.address("SSL"), security=security) as reader:
        with pytest.raises(LogNotUsable, match="allow this user READ"):
            await reader.ends([topic])

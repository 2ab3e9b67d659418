"""Security settings and defects of a cluster: one clear sentence each."""

from pathlib import Path

import pytest

from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogError, LogNotUsable
from controlplane.settings import Configuration, SettingsError
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.security import KafkaSecurity, Sasl, Secret, Tls
from controlplane.settings.sources import flag_values
from tests.kafka.access_rights import unsigned_token
from tests.kafka.claimed_logs import keys, opened, put
from tests.kafka.producer import NewTopic, read_entries, reading, writer
from tests.kafka.real_kafka import OAUTH_LISTENER, SASL, USERS, Broker
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

QUICK = ReadLimits(connect_timeout_ms=2_000, request_timeout_ms=2_000)


def login(name: str = "alice", mechanism: str = "PLAIN", password: str | None = None) -> Sasl:
    """User of the shared broker, with the right password by default."""
    return Sasl(mechanism, name, Secret(password or USERS[name]))


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [(protocol, mechanism) for protocol, offered in SASL.items() for mechanism in offered],
)
async def test_every_mechanism_logs_in(
    broker: Broker, topic: str, protocol: str, mechanism: str
) -> None:
    """Readers and tails log in by every mechanism, with and without TLS."""
    tls = Tls(trusted=broker.certificates.authority) if protocol == "SASL_SSL" else None
    security = KafkaSecurity(sasl=login(mechanism=mechanism), tls=tls)
    assert security.protocol == protocol
    async with writer(broker) as out:
        await out.put(topic, 0, b"k", b"v")
    async with reading(broker.address(protocol), security=security) as reader:
        assert await read_entries(reader, [topic]) == out.written
        batch = await anext(reader.tail([topic], {topic: [0, 0, 0]}))
        assert list(batch.entries()) == out.written


async def test_certificates_as_text_are_accepted(broker: Broker, topic: str) -> None:
    """Inline PEM certificates are accepted, as by Kafka."""
    tls = Tls(trusted=broker.certificates.authority.read_text())
    async with reading(broker.address("SSL"), security=KafkaSecurity(tls=tls)) as reader:
        assert await reader.ends([topic]) == {topic: [0, 0, 0]}


@pytest.mark.parametrize("password", [None, "key-secret"])
@pytest.mark.parametrize("inline", [True, False])
async def test_the_client_shows_its_certificate(
    broker: Broker, topic: str, password: str | None, inline: bool
) -> None:
    """The client shows its certificate where a broker requires one."""
    file = broker.certificates.identity("alice", password)
    tls = Tls(
        trusted=broker.certificates.authority,
        identity=Secret(file.read_text()) if inline else file,
        identity_password=Secret(password) if password else None,
    )
    async with reading(broker.address("SSL"), security=KafkaSecurity(tls=tls)) as reader:
        assert await reader.ends([topic]) == {topic: [0, 0, 0]}


async def test_a_wrong_key_password_is_not_repeated(broker: Broker) -> None:
    """A wrong key password is a wrong setting; the message does not repeat it."""
    file = broker.certificates.identity("carol", "key-secret")
    tls = Tls(trusted=file, identity=file, identity_password=Secret("other-secret"))
    with pytest.raises(SettingsError, match=r"ssl\.key\.password") as refused:
        await KafkaReader.open(broker.address("SSL"), security=KafkaSecurity(tls=tls))
    assert "other-secret" not in str(refused.value)


WRONG = {
    "password": ("SASL_PLAINTEXT", login(password="wrong"), None),
    "scram password": ("SASL_PLAINTEXT", login("alice", "SCRAM-SHA-256", "wrong"), None),
    "scram name": ("SASL_PLAINTEXT", Sasl("SCRAM-SHA-512", "nobody", Secret("wrong")), None),
}
"""Listener, login and TLS that are refused for their name or password."""


@pytest.mark.parametrize("case", WRONG)
async def test_a_refused_login_is_not_retried(broker: Broker, case: str) -> None:
    """A refused login is not retried, and the password is not repeated."""
    protocol, sasl, tls = WRONG[case]
    with pytest.raises(LogNotUsable, match="refuses the name or the password") as refused:
        await KafkaReader.open(broker.address(protocol), security=KafkaSecurity(sasl=sasl, tls=tls))
    assert "wrong" not in str(refused.value)


async def test_a_token_file_is_read_at_each_login(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """A token file is read at each login; after a rewrite the broker sees another user."""
    file = tmp_path / "token"
    flags = [
        ("flag", "security.protocol", OAUTH_LISTENER),
        ("flag", "sasl.mechanism", "OAUTHBEARER"),
        ("flag", "sasl.oauthbearer.token.endpoint.url", file.as_uri()),
    ]
    security = Configuration(flag_values(flags)).make(AccessSettings, kafka_security)
    address = broker.address(OAUTH_LISTENER)
    file.write_text(unsigned_token("alice") + "\n")
    async with opened(address, security) as log:
        await log.append([put(topic, "a")])
        await log.append([put(topic, "b"), put(topic, "c", 1)], await log.claim())
        assert await keys(log, topic) == ["a", "b", "c"]
    file.write_text(unsigned_token("bob"))
    async with reading(address, security=security) as reader:
        assert await reader.topics() == {}
    for token in (unsigned_token("alice", -60), "no token"):
        file.write_text(token)
        with pytest.raises(LogNotUsable, match=r"refuses .* the token"):
            await KafkaReader.open(address, security=security)
    file.write_text("")
    with pytest.raises(LogNotUsable, match=r"no token .* empty"):
        await KafkaReader.open(address, security=security)
    file.unlink()
    with pytest.raises(LogNotUsable, match=r"no token .* No such file"):
        await KafkaReader.open(address, security=security)


async def test_an_unsupported_mechanism_names_the_setting(broker: Broker) -> None:
    """The error for an unsupported mechanism names the setting."""
    tls = Tls(trusted=broker.certificates.authority)
    security = KafkaSecurity(sasl=login(mechanism="SCRAM-SHA-512"), tls=tls)
    with pytest.raises(LogNotUsable, match=r"sasl\.mechanism"):
        await KafkaReader.open(broker.address("SASL_SSL"), security=security)


async def test_topics_look_missing_without_rights(broker: Broker, topic: str) -> None:
    """Bob can log in without any right: topics look missing to him."""
    security = KafkaSecurity(sasl=login("bob"))
    async with reading(broker.address("SASL_PLAINTEXT"), security=security) as reader:
        assert await reader.topics() == {}
        with pytest.raises(LogNotUsable, match="allow this user READ"):
            await reader.ends([topic])
        with pytest.raises(LogNotUsable, match="allow this user READ"):
            await read_entries(reader, [topic])


MISMATCHES = {
    "plain to SASL": ("SASL_PLAINTEXT", KafkaSecurity()),
    "plain to TLS": ("SSL", KafkaSecurity()),
    "TLS to plain": ("PLAINTEXT", KafkaSecurity(tls=Tls())),
    "SASL to TLS": ("SSL", KafkaSecurity(sasl=login())),
    "SASL to plain": ("PLAINTEXT", KafkaSecurity(sasl=login())),
    "TLS to SASL": ("SASL_PLAINTEXT", KafkaSecurity(tls=Tls())),
}
"""Protocols of client and listener that do not match."""


@pytest.mark.parametrize("case", MISMATCHES)
async def test_a_protocol_that_differs_from_the_listeners_is_named(
    broker: Broker, case: str
) -> None:
    """The error names security.protocol, however the socket fails."""
    protocol, security = MISMATCHES[case]
    with pytest.raises(LogError, match=r"security\.protocol"):
        await KafkaReader.open(broker.address(protocol), security=security, limits=QUICK)


async def test_a_certificate_of_an_unknown_authority_is_refused(broker: Broker) -> None:
    """Opening a reader raises `LogNotUsable`, whose message names the certificate."""
    with pytest.raises(LogNotUsable, match=r"certificate .* is refused"):
        await KafkaReader.open(broker.address("SSL"), security=KafkaSecurity(tls=Tls()))


async def test_a_certificate_for_another_name_is_refused(broker: Broker) -> None:
    """The certificate must name the broker, unless the check of names is off."""
    address = f"localhost:{broker.ports['SSL']}"
    authority = broker.certificates.authority
    with pytest.raises(LogNotUsable, match=r"certificate .* is refused"):
        await KafkaReader.open(address, security=KafkaSecurity(tls=Tls(trusted=authority)))
    unchecked = Tls(trusted=authority, check_hostname=False)
    async with reading(address, security=KafkaSecurity(tls=unchecked)) as reader:
        assert await reader.check([]) == []


async def test_requests_about_a_missing_topic_do_not_create_it(
    reader: KafkaReader, topic: str
) -> None:
    """Every request about a missing topic names it and does not create it."""
    missing = f"{topic}-missing"
    for question in (
        reader.ends([topic, missing]),
        reader.starts([missing]),
        read_entries(reader, [missing]),
        anext(reader.tail([missing], {})),
    ):
        with pytest.raises(LogNotUsable, match=f"{missing} does not exist"):
            await question
    assert missing not in await reader.topics()


async def test_the_check_reports_unusable_topics(reader: KafkaReader, new_topic: NewTopic) -> None:
    """The check reports only missing topics and topics that are not compacted, as a worker does."""
    good, deleted, both = (
        await new_topic(),
        await new_topic(cleanup__policy="delete"),
        await new_topic(cleanup__policy="compact,delete"),
    )
    problems = await reader.check([good, deleted, both, "missing"])
    assert len(problems) == 3
    assert "missing does not exist" in problems[0]
    assert f"{deleted} has cleanup.policy=delete" in problems[1]
    assert f"{both} has cleanup.policy=compact,delete" in problems[2]


async def test_the_check_names_a_missing_right(broker: Broker, topic: str) -> None:
    """The check of a topic that this user may not read names the right alone."""
    security = KafkaSecurity(sasl=login("bob"))
    async with reading(broker.address("SASL_PLAINTEXT"), security=security) as reader:
        (problem,) = await reader.check([topic])
        assert "allow this user" in problem


async def test_one_broker_of_a_list_is_enough(broker: Broker, topic: str) -> None:
    """Unreachable addresses of the list are skipped."""
    (free,) = free_ports(1)
    async with reading(f"127.0.0.1:{free},{broker.bootstrap}") as reader:
        assert topic in await reader.topics()

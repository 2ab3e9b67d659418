"""Settings of a worker's `.properties` file; secrets are not shown."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from controlplane.core.context import DecisionSettings as Deciding
from controlplane.core.state import Topics
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.errors import SettingsError
from controlplane.settings.listeners import Address, admin_listen_address, listen_address
from controlplane.settings.properties import MAX_PROPERTIES_BYTES
from controlplane.settings.security import (
    JavaStore,
    KafkaSecurity,
    OAuthBearer,
    Sasl,
    Secret,
    Tls,
    TokenFile,
)
from controlplane.settings.sources import file_values
from controlplane.settings.worker_settings import decision_settings


class WorkerFileContent(NamedTuple):
    """Worker settings and security settings of a file."""

    settings: WorkerSettings
    security: KafkaSecurity


@pytest.fixture
def worker(tmp_path: Path) -> "WorkerFile":
    """Return a reader for worker files of a test."""
    return WorkerFile(tmp_path / "worker.properties")


class WorkerFile:
    """File that a test writes and reads."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def configuration(self, *lines: str) -> Configuration:
        """Configuration of a file with these lines."""
        self.file.write_text("\n".join(lines), "iso-8859-1")
        return Configuration(file_values(self.file))

    def read(self, *lines: str) -> WorkerFileContent:
        """Settings in a file with these lines."""
        config = self.configuration(*lines)
        return WorkerFileContent(
            config.settings(WorkerSettings), config.make(AccessSettings, kafka_security)
        )

    def refused(self, *lines: str) -> str:
        """Error sentence for a file with these lines; it names the file."""
        with pytest.raises(SettingsError) as refused:
            self.read(*lines)
        sentence = str(refused.value)
        assert sentence.startswith(f"{self.file}:")
        assert "\n" not in sentence
        return sentence


def test_an_empty_file_has_defaults(worker: WorkerFile) -> None:
    """The defaults are Kafka's sample names, no exactly-once support, and a plain connection."""
    assert worker.read("") == (WorkerSettings(), KafkaSecurity())


def test_topic_names_are_trimmed(worker: WorkerFile) -> None:
    """Names are trimmed, as Kafka trims them; unknown keys are ignored."""
    content = worker.read(
        "bootstrap.servers=one:9092,two:9092",
        "group.id = fleet ",
        "config.storage.topic=fleet-configs\\ ",
        "offset.storage.topic=fleet-offsets",
        "status.storage.topic=fleet-status",
        "exactly.once.source.support=Enabled",
        "some.unknown.key=whatever",
        "plugin.path=/somewhere , /else",
    )
    assert content.settings == WorkerSettings(
        bootstrap_servers="one:9092,two:9092",
        config_storage_topic="fleet-configs",
        offset_storage_topic="fleet-offsets",
        status_storage_topic="fleet-status",
        group_id="fleet",
        exactly_once_source_support="ENABLED",
        plugin_path=("/somewhere", "/else"),
    )
    assert content.settings.topics == Topics("fleet-configs", "fleet-offsets", "fleet-status")


@pytest.mark.parametrize(
    ("support", "exactly_once"),
    [("disabled", False), ("preparing", False), ("enabled", True), ("ENABLED", True)],
)
def test_enabled_support_skips_aborted_records(
    worker: WorkerFile, support: str, exactly_once: bool
) -> None:
    """A worker skips aborted records if the support is enabled, not while it is preparing."""
    content = worker.read(f"exactly.once.source.support={support}")
    assert content.settings.exactly_once is exactly_once


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("options", "username", "password"),
    [
        ('username="alice" password="secret";', "alice", "secret"),
        ("username='al ice' password=secret;", "al ice", "secret"),
        ('password = "a\\"b;c=\\\\d"\\\n  username=alice;', "alice", 'a"b;c=\\d'),
        ('username="alice" password="";', "alice", ""),
        ('serviceName="kafka" username="alice" password="x" refresh=true;', "alice", "x"),
    ],
)
def test_the_options_of_a_login_module_are_read(
    worker: WorkerFile, options: str, username: str, password: str
) -> None:
    """The options of the login module are read, with either quotes or none."""
    escaped = options.replace("\\", "\\\\").replace("\\\\\n", "\\\n")
    content = worker.read(
        "security.protocol=sasl_plaintext",
        "sasl.mechanism=SCRAM-SHA-512",
        f"sasl.jaas.config={JAAS} {escaped}",
    )
    assert content.security == KafkaSecurity(sasl=Sasl("SCRAM-SHA-512", username, Secret(password)))
    assert content.security.protocol == "SASL_PLAINTEXT"


def test_pem_stores_are_paths(worker: WorkerFile) -> None:
    """PEM stores are paths; an empty algorithm turns the check of host names off."""
    content = worker.read(
        "security.protocol=SSL",
        "ssl.truststore.type=pem",
        "ssl.truststore.location=/etc/ca.pem",
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=me.pem",
        "ssl.key.password=secret",
        "ssl.endpoint.identification.algorithm=",
    )
    tls = Tls(
        Path("/etc/ca.pem"), Path("me.pem").absolute(), Secret("secret"), check_hostname=False
    )
    assert content.security == KafkaSecurity(tls=tls)
    assert content.security.protocol == "SSL"


def test_certificates_and_key_can_be_inline(worker: WorkerFile) -> None:
    """The file itself may have certificates and key, their lines joined by escapes."""
    content = worker.read(
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={JAAS} username="a" password="b";',
        "ssl.truststore.certificates=-----BEGIN\\n-----END",
        "ssl.keystore.key=KEY",
        "ssl.keystore.certificate.chain=CHAIN",
    )
    tls = Tls("-----BEGIN\n-----END", Secret("KEY\nCHAIN\n"))
    assert content.security == KafkaSecurity(Sasl("PLAIN", "a", Secret("b")), tls)
    assert content.security.protocol == "SASL_SSL"


def test_unused_security_settings_are_ignored(worker: WorkerFile) -> None:
    """The file may have any store or login that its protocol does not use."""
    content = worker.read("ssl.truststore.location=/etc/trust.jks", "sasl.mechanism=GSSAPI")
    assert content.security == KafkaSecurity()


def test_stores_of_java_have_path_and_password(worker: WorkerFile) -> None:
    """JKS (the default) and PKCS12 stores are paths with a password each."""
    content = worker.read(
        "security.protocol=SSL",
        "ssl.truststore.location=/etc/trust.jks",
        "ssl.truststore.password=changeit",
        "ssl.keystore.type=pkcs12",
        "ssl.keystore.location=me.p12",
        "ssl.keystore.password=secret",
    )
    trusted = JavaStore(Path("/etc/trust.jks"), Secret("changeit"))
    identity = JavaStore(Path("me.p12").absolute(), Secret("secret"))
    assert content.security == KafkaSecurity(tls=Tls(trusted, identity))


def test_a_file_url_gives_the_path_of_a_token(worker: WorkerFile) -> None:
    """The token's path comes from a `file:` URL, as in Kafka."""
    content = worker.read(
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url=file:///run/my%20secrets/token",
    )
    expected = OAuthBearer(TokenFile(Path("/run/my secrets/token")))
    assert content.security == KafkaSecurity(sasl=expected)
    assert content.security.protocol == "SASL_PLAINTEXT"


REFUSALS = {
    "protocol": (["security.protocol=TLS"], ":1: security.protocol is 'TLS': use PLAINTEXT, SASL_"),
    "mechanism": (["security.protocol=SASL_SSL", "sasl.mechanism=CRAM-MD5"], "use PLAIN"),
    "no token": (
        ["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"],
        "sasl.oauthbearer.token.endpoint.url names no file with a token",
    ),
    "a token of a server": (
        [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url=https://login/token",
        ],
        ":3: sasl.oauthbearer.token.endpoint.url names no file with a token",
    ),
    "kafka's own mechanism": (["security.protocol=SASL_SSL"], ":1: sasl.mechanism is 'GSSAPI'"),
    "support": (
        ["", "exactly.once.source.support=yes"],
        ":2: exactly.once.source.support is 'yes': use DISABLED, ENABLED, PREPARING",
    ),
    "switch": (["topic.tracking.enable=1"], "topic.tracking.enable is '1': use true or false"),
    "number": (["rest.port=8083.0"], "rest.port is '8083.0': use a whole number from 0 to 65535"),
    "too much": (["rest.port=65536"], "rest.port is '65536': use a whole number"),
    "no digits": (["rest.port=" + "9" * 9_999], "9…': use a whole number"),
    "negative": (["inter.worker.key.ttl.ms=-1"], "from 0 to 2147483647"),
    "no partitions": (
        ["status.storage.partitions=0"],
        "use -1 or a whole number from 1 to 2147483647",
    ),
    "no name": (
        ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={JAAS} x=y;"],
        ":3: sasl.jaas.config names no username",
    ),
    "no login": (
        ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"],
        ":1: sasl.jaas.config names no username",
    ),
    "another store": (
        ["security.protocol=SSL", "ssl.keystore.type=BCFKS", "ssl.keystore.location=me.bc"],
        ":2: ssl.keystore.type is 'BCFKS': use JKS, PKCS12, PEM",
    ),
    "key alone": (["security.protocol=SSL", "ssl.keystore.key=KEY"], "belong together"),
    "chain alone": (
        ["security.protocol=SSL", "ssl.keystore.certificate.chain=CHAIN"],
        ":2: ssl.keystore.key and",
    ),
    "escape": (["group.id=\\u00e"], ":1: \\u must be followed"),
    "binary": (["\0\1\2"], "is no .properties file"),
    "huge": (["#" * MAX_PROPERTIES_BYTES, ""], "is no .properties file"),
}
"""Lines of a file that cannot be used, and a part of the sentence that says why."""


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_settings_are_refused(worker: WorkerFile, case: str) -> None:
    """The error is one sentence that names the setting."""
    lines, why = REFUSALS[case]
    assert why in worker.refused(*lines)


@pytest.mark.parametrize("name", ["missing.properties", "."])
def test_unreadable_files_are_named(tmp_path: Path, name: str) -> None:
    """The error about a missing file or a directory names its path."""
    with pytest.raises(SettingsError, match="cannot be read"):
        file_values(tmp_path / name)


POLICY = "connector.client.config.override.policy"
CLASSES = "org.apache.kafka.connect.connector.policy"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], Deciding()),
        (
            ["group.id=fleet", "consumer.group.id=sinks", "bootstrap.servers=one:9092"],
            Deciding(group_id="fleet", consumer_group_id="sinks", bootstrap_servers="one:9092"),
        ),
        (
            ["topic.tracking.enable=False", "topic.tracking.allow.reset=FALSE"],
            Deciding(topic_tracking_enable=False, topic_tracking_allow_reset=False),
        ),
        (
            [f"{POLICY}=None"],
            Deciding(override_policy="None"),
        ),
        (
            [f"{POLICY}={CLASSES}.PrincipalConnectorClientConfigOverridePolicy"],
            Deciding(override_policy="Principal"),
        ),
    ],
)
def test_policies_have_alias_and_class(
    worker: WorkerFile, lines: list[str], expected: Deciding
) -> None:
    """Policies are recognised by their alias and by their class."""
    assert worker.configuration(*lines).make(WorkerSettings, decision_settings) == expected


def test_a_foreign_policy_refuses_decisions(worker: WorkerFile) -> None:
    """A foreign policy is Java: the file can be read, but decisions are refused."""
    config = worker.configuration(f"{POLICY}=org.example.Mine")
    assert config.settings(WorkerSettings).connector_client_config_override_policy
    with pytest.raises(
        SettingsError, match=r":1: .* is 'org\.example\.Mine', which exists only in Java"
    ):
        config.make(WorkerSettings, decision_settings)


@pytest.mark.parametrize(
    ("lines", "host", "port"),
    [
        ([], "127.0.0.1", 8083),
        (["rest.port=1"], "127.0.0.1", 1),
        (["rest.host.name=here", "rest.port=1"], "here", 1),
        (["listeners=http://:2", "rest.port=1"], "0.0.0.0", 2),
        (["listeners=HTTP://b:2/,https://a:1"], "b", 2),
        (["listeners=https://a:1, http://b:2"], "a", 1),
        (["listeners=http://[::1]:4"], "::1", 4),
    ],
)
def test_the_first_listener_counts(
    worker: WorkerFile, lines: list[str], host: str, port: int
) -> None:
    """The first listener counts; without listeners the address is 127.0.0.1 and `rest.port`."""
    config = worker.configuration(*lines)
    assert config.make(WorkerSettings, listen_address) == Address(host, port)


@pytest.mark.parametrize("listeners", ["ftp://:8443", "8083", "http://here", "http://here:x"])
def test_unusable_listeners_are_refused(worker: WorkerFile, listeners: str) -> None:
    """A URL with another scheme than `http` and `https`, or without a port, is no listener."""
    with pytest.raises(SettingsError, match=r":1: listeners is '.*': use http://host:port"):
        worker.configuration(f"listeners={listeners}").make(WorkerSettings, listen_address)


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ([], None),
        (["admin.listeners="], None),
        (["admin.listeners=http://:2,http://b:3"], Address("0.0.0.0", 2)),
        (["admin.listeners=https://a:2"], Address("a", 2)),
    ],
)
def test_the_admin_listener_needs_an_address(
    worker: WorkerFile, lines: list[str], where: Address | None
) -> None:
    """The admin listener exists only if it has an address (KIP-495)."""
    assert worker.configuration(*lines).make(WorkerSettings, admin_listen_address) == where


@pytest.mark.parametrize("key", ["listeners", "admin.listeners"])
def test_a_listener_without_such_a_port_is_refused(worker: WorkerFile, key: str) -> None:
    """The operating system would refuse it later, with an exception."""
    address = listen_address if key == "listeners" else admin_listen_address
    with pytest.raises(SettingsError, match=rf":1: {key} is '.*': use a port from 0 to 65535"):
        worker.configuration(f"{key}=http://:65536").make(WorkerSettings, address)


def test_unusable_admin_listeners_are_refused(worker: WorkerFile) -> None:
    """A port alone is no address."""
    with pytest.raises(SettingsError, match=r":1: admin.listeners is '8083': use http://host"):
        worker.configuration("admin.listeners=8083").make(WorkerSettings, admin_listen_address)


def test_secrets_are_never_shown(worker: WorkerFile) -> None:
    """`repr`, `str`, `format` and errors hide secrets."""
    content = worker.read(
        "security.protocol=SASL_SSL",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={JAAS} username="alice" password="hunter2";',
        "ssl.keystore.key=hunter3",
        "ssl.keystore.certificate.chain=hunter4",
        "ssl.key.password=hunter5",
        "ssl.truststore.location=trust.p12",
        "ssl.truststore.password=hunter7",
    )
    sasl = content.security.sasl
    assert isinstance(sasl, Sasl)
    for shown in (repr(content), str(content), f"{sasl.password}", f"{sasl.password!s:>20}"):
        assert "hunter" not in shown
    with pytest.raises(TypeError):
        msgspec.json.encode(content)
    assert sasl.password.reveal() == "hunter2"
    broken = worker.refused(
        "security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.jaas.config=x password=hunter6;"
    )
    assert "hunter" not in broken

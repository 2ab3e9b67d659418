"""Real Kafka for tests: KRaft brokers and Connect workers of any release, on loopback.

`KAFKA_BOOTSTRAP` selects an existing broker. Otherwise programs run from Kafka's jars by Maven, or
else in containers of Kafka's image (`runtime`).
"""

import hashlib
import os
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import pytest

from controlplane.core.state import Topics
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogError
from tests.jars import ROOT, JarsUnavailable, classpath, java
from tests.kafka.certificates import Certificates
from tests.kafka.class_archives import ClassArchive, extended
from tests.kafka.containers import KafkaImage, engine_answers
from tests.kafka.plugin_search import searched_less
from tests.kafka.process import SMALL_JVM, STOP_TIMEOUT_S, JavaProgram
from tests.patience import PATIENCE_S
from tests.ports import free_ports

FORMATTED = ROOT / ".cache" / "formatted"
"""Unused log directories, by release, node and SCRAM users; a broker starts on a copy."""

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
USERS = {"alice": "alice-secret", "bob": "bob-secret"}
"""Names and passwords. Alice may do everything, Bob nothing."""

GIVEN_BROKER, GIVEN_RELEASE = "KAFKA_BOOTSTRAP", "KAFKA_RELEASE"
"""Variables: address and release of an existing broker, which tests use instead of Kafka's jars."""

LOGGING = "org.slf4j:slf4j-simple:1.7.36"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

T = TypeVar("T")
ProgramSettings = Mapping[str, object]

BROKER: ProgramSettings = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "broker.session.timeout.ms": 1000,  # a killed broker may join again after this time
    "broker.heartbeat.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 1000,  # checking a thousand partitions takes 20 ms of a core
    "log.cleaner.dedupe.buffer.size": 8 << 20,
    "log.initial.task.delay.ms": 0,
    "metadata.max.idle.interval.ms": 0,  # else Kafka writes a record every half second
    "num.network.threads": 2,
    "num.io.threads": 2,
}
"""Settings of one node that starts quickly, is small, and compacts soon."""

SECOND: dict[str, object] = {"process.roles": "broker", "node.id": 2}
"""Settings of a second broker that joins the first."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SASL = {
    "SASL_PLAINTEXT": ("PLAIN", *SCRAM_MECHANISMS),
    "SASL_SSL": ("PLAIN", "SCRAM-SHA-256"),
}
"""Password mechanisms of each listener. One listener lacks a mechanism, as a test needs."""

OAUTH_LISTENER = "SASL_PLAINTEXT"
"""Listener that also takes unsigned tokens (OAUTHBEARER)."""
_OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)


class _Service(ABC):
    """Program that answers once it is up. `async with` starts it, and ends it on exit."""

    _program: JavaProgram

    @property
    def printed(self) -> str:
        """End of the program's log."""
        return self._program.printed

    @property
    def log(self) -> Path:
        """File with everything that the program prints."""
        return self._program.log

    @property
    def pid(self) -> int:
        """Process id of the program that runs."""
        return self._program.pid

    def launch(self) -> None:
        """Start the program and return at once."""
        self._program.start()

    async def start(self) -> None:
        """Start the program, and wait until it answers; a restarted one has the same files."""
        self.launch()
        await self._program.ready(self._answers)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the program in order; kill it after the timeout."""
        await self._program.end(timeout_s=timeout_s)

    async def kill9(self) -> None:
        """End the program as a crash does."""
        await self._program.end(signal.SIGKILL)

    async def hang(self) -> None:
        """Suspend the process until `go_on`; its sockets stay open."""
        self._program.suspend()

    async def go_on(self) -> None:
        """Continue the process that `SIGSTOP` has paused."""
        self._program.tell(signal.SIGCONT)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.kill9()

    @abstractmethod
    async def _answers(self) -> bool:
        """True once the program answers."""


class Broker(_Service):
    """A cluster of one broker, or a second broker that joins the cluster of another.

    `listeners` are security protocols, each with a port of its own; `PLAINTEXT` is always there.
    """

    def __init__(
        self,
        release: str,
        directory: Path,
        *,
        listeners: tuple[str, ...] = (),
        joins: "Broker | None" = None,
        jvm: tuple[str, ...] | None = None,
        **settings: object,
    ) -> None:
        self.release = release
        self.directory = directory / f"broker-{release}"
        self.directory.mkdir(parents=True)
        protocols = ("PLAINTEXT", *listeners)
        *ports, controller = free_ports(len(protocols) + 1)
        self.ports = dict(zip(protocols, ports, strict=True))
        self.certificates = Certificates(self.directory)
        self._config = self.directory / "server.properties"
        self.controller: str = joins.controller if joins else f"127.0.0.1:{controller}"
        joining = SECOND | {"listeners": self._advertised} if joins else {}
        _write(self._config, self._settings(), joining, dotted(settings))
        node = (CLUSTER_ID, release, joining.get("node.id"), *self._scram_users())
        self._formatted = FORMATTED / hashlib.sha256(repr(node).encode()).hexdigest()[:16]
        self._path = broker_runtime(release)
        self._jvm = jvm or quick_jvm("broker", self._path)
        self._program = self._java("broker", "kafka.Kafka", str(self._config))

    @property
    def bootstrap(self) -> str:
        """Address of the plain listener (host:port)."""
        return self.address("PLAINTEXT")

    def address(self, protocol: str) -> str:
        """Address of the listener with a security protocol."""
        return f"127.0.0.1:{self.ports[protocol]}"

    async def __aenter__(self) -> Self:
        if self._formatted.exists():
            shutil.copytree(self._formatted, self._logs)
        else:
            await self._format()
        return await super().__aenter__()

    async def _format(self) -> None:
        """Format the log directory, and keep a copy for the next such broker."""
        scram = [f"--add-scram={line}" for line in self._scram_users()]
        tool = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config))
        await self._java("format", *tool, *scram).run()
        unfinished = self._formatted.with_suffix(f".{os.getpid()}")
        shutil.copytree(self._logs, unfinished)
        with suppress(OSError):  # another process was quicker: its copy is as good
            unfinished.rename(self._formatted)
        shutil.rmtree(unfinished, ignore_errors=True)

    def _java(self, name: str, *arguments: str) -> JavaProgram:
        return JavaProgram(name, self.directory, self._path, QUIET, *arguments, jvm=self._jvm)

    async def _answers(self) -> bool:
        try:
            reader = await KafkaReader.open(self.bootstrap)
        except LogError:
            return False
        await reader.close()
        return True

    def _scram_users(self) -> list[str]:
        return [
            f"{mechanism}=[name={name},password={password}]"
            for mechanism in SCRAM_MECHANISMS
            for name, password in USERS.items()
            if len(self.ports) > 1
        ]

    @property
    def _logs(self) -> Path:
        return self.directory / "logs"

    @property
    def _advertised(self) -> str:
        return ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())

    def _settings(self) -> dict[str, object]:
        settings = {
            **BROKER,
            "controller.quorum.voters": f"1@{self.controller}",
            "listeners": f"{self._advertised},CONTROLLER://{self.controller}",
            "advertised.listeners": self._advertised,
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in self.ports)]
            ),
            "log.dirs": self._logs,
        }
        return settings | (self._security() if len(self.ports) > 1 else {})

    def _security(self) -> dict[str, object]:
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        settings: dict[str, object] = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.identity("broker"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.certificates.authority,
            "listener.name.ssl.ssl.client.auth": "requested",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice;User:CN=alice",
        }
        for protocol in SASL.keys() & self.ports.keys():
            settings |= _sasl(protocol, users)
        return settings


class GivenBroker(Broker):
    """Existing broker at an address, which tests neither start nor stop.

    It has one listener, without login. A test that needs another listener, or that stops its
    broker, is skipped.
    """

    def __init__(self, bootstrap: str, release: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self.release = release
        self.directory = directory

    @property
    def bootstrap(self) -> str:
        """Address of the broker that the caller gave."""
        return self._bootstrap

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        """Leave the broker running: another process has started it."""

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"{GIVEN_BROKER} has no {name}")


def _sasl(protocol: str, users: str) -> dict[str, object]:
    """Settings of a listener: its mechanisms and its users."""
    listener = f"listener.name.{protocol.lower()}"
    settings: dict[str, object] = {
        f"{listener}.{mechanism.lower()}.sasl.jaas.config": _SCRAM for mechanism in SASL[protocol]
    }
    oauth = ["OAUTHBEARER"] if protocol == OAUTH_LISTENER else []
    if oauth:
        settings[f"{listener}.oauthbearer.sasl.jaas.config"] = _OAUTH
    return settings | {
        f"{listener}.sasl.enabled.mechanisms": ",".join([*SASL[protocol], *oauth]),
        f"{listener}.plain.sasl.jaas.config": f"{_PLAIN} {users};",
    }


WORKER: ProgramSettings = {
    "group.id": "connect-cluster",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "status.storage.replication.factor": 1,
    "offset.storage.partitions": 5,
    "status.storage.partitions": 3,
    "offset.flush.interval.ms": 200,
    "plugin.discovery": "service_load",  # releases before 3.6 search the class path, and are slow
    "task.shutdown.graceful.timeout.ms": 1000,
    "scheduled.rebalance.max.delay.ms": 0,
}
"""Settings of a worker whose changes show soon."""


PARTS = ("runtime", "file", "json")
"""Artifacts of Kafka Connect on a worker's class path; `mirror` is another."""


def cluster_settings(topics: Topics) -> dict[str, Any]:
    """Settings of a worker with these topics; its group is named after the config topic."""
    return {
        "group__id": topics.config,
        "config__storage__topic": topics.config,
        "offset__storage__topic": topics.offsets,
        "status__storage__topic": topics.status,
    }


class _Worker(_Service):
    """Program that serves Connect's REST API."""

    rest: httpx.AsyncClient

    async def __aexit__(self, *why: object) -> None:
        await self.rest.aclose()
        await super().__aexit__(*why)

    async def _answers(self) -> bool:
        try:
            return (await self.rest.get("/connectors")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


class KafkaWorker(_Worker):
    """A Connect worker.

    A setting's name has `__` for each dot: `KafkaWorker(…, offset__storage__partitions=25)`.
    `extra_artifacts` are further artifacts on its class path, with their versions; `classes` is a
    folder of compiled classes.
    """

    def __init__(
        self,
        release: str,
        broker: Broker,
        *,
        jvm: tuple[str, ...] | None = None,
        parts: tuple[str, ...] = PARTS,
        extra_artifacts: tuple[str, ...] = (),
        classes: Path | None = None,
        **settings: Any,
    ) -> None:
        self.release = release
        self.directory = broker.directory / f"worker-{release}-{free_ports(1)[0]}"
        self.directory.mkdir()
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.config = self.directory / "worker.properties"
        own = {"bootstrap.servers": broker.bootstrap, "listeners": self.url}
        _write(self.config, WORKER, own, dotted(settings))
        path = archived = worker_runtime(
            release, parts, extra_artifacts, in_image=not (extra_artifacts or classes)
        )
        if isinstance(path, str):
            if release == broker.release and {*PARTS} <= {*parts} and not extra_artifacts:
                archived = worker_runtime(release)
                path = extended(str(archived), path)
            path = searched_less(release, path, self.directory)
        if classes is not None:
            path = os.pathsep.join((str(path), str(classes)))
        jvm = jvm or quick_jvm("worker", archived)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._program = JavaProgram(
            "worker", self.directory, path, QUIET, main, str(self.config), jvm=jvm
        )
        self.rest = httpx.AsyncClient(base_url=self.url, timeout=PATIENCE_S)


class StandaloneWorker(_Worker):
    """A standalone Connect worker (`connect-standalone.sh`) with the connectors of some files.

    A setting's name has `__` for each dot, as of a `KafkaWorker`.
    """

    def __init__(
        self, release: str, broker: Broker, folder: Path, *connectors: Path, **settings: Any
    ) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "standalone.properties"
        own = {"bootstrap.servers": broker.bootstrap, "listeners": self.url}
        _write(config, STANDALONE, own, dotted(settings))
        path = worker_runtime(release, in_image=False)
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        files = [str(file) for file in (config, *connectors)]
        jvm = quick_jvm("worker", path)
        self._program = JavaProgram("standalone", folder, path, QUIET, main, *files, jvm=jvm)
        self.rest = httpx.AsyncClient(base_url=self.url, timeout=PATIENCE_S)

    async def exit_code(self) -> int:
        """Run the worker until it ends by itself; return its exit code."""
        return await self._program.exit_code()


STANDALONE: ProgramSettings = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": 200,
    "plugin.discovery": "service_load",
}
"""Settings of a standalone worker that commits soon."""


def broker_runtime(release: str) -> str | KafkaImage:
    """Class path or image of a broker.

    Raises:
        JarsUnavailable: there is neither.
    """
    names = ("kafka_2.13", "kafka-tools")
    return runtime(release, *(f"org.apache.kafka:{name}:{release}" for name in names))


def worker_runtime(
    release: str,
    parts: tuple[str, ...] = PARTS,
    extra_artifacts: tuple[str, ...] = (),
    *,
    in_image: bool = True,
) -> str | KafkaImage:
    """Class path or image of a Connect worker; `extra_artifacts` are further artifacts.

    `in_image`: the image has all of them.

    Raises:
        JarsUnavailable: there is neither.
    """
    artifacts = [f"org.apache.kafka:connect-{part}:{release}" for part in parts]
    return runtime(release, *artifacts, *extra_artifacts, in_image=in_image)


def quick_jvm(program: str, path: str | KafkaImage) -> tuple[str, ...]:
    """JVM options for a quick start; a container cannot read a class archive."""
    archived = ClassArchive(program, path).reading if isinstance(path, str) else ()
    return (*SMALL_JVM, *archived)


def runtime(release: str, *artifacts: str, in_image: bool = True) -> str | KafkaImage:
    """The class path of these artifacts by Maven; else Kafka's image, if an engine runs it.

    `in_image`: the image has all of them.

    Raises:
        JarsUnavailable: there is neither.
    """
    try:
        return _by_maven(*artifacts)
    except JarsUnavailable:
        if in_image and engine_answers():
            return KafkaImage(release)
        raise


def _by_maven(*artifacts: str) -> str:
    if java() is None:
        raise JarsUnavailable("Java is missing: apt-get install openjdk-17-jdk-headless")
    return classpath(*artifacts, LOGGING, silent=False)


def dotted(settings: Mapping[str, T]) -> dict[str, T]:
    """Settings with a dot for each `__` of a name."""
    return {name.replace("__", "."): value for name, value in settings.items()}


def _write(file: Path, *settings: ProgramSettings) -> None:
    """A `.properties` file of all these settings; later ones win."""
    merged = {key: value for group in settings for key, value in group.items()}
    file.write_text("".join(f"{key}={value}\n" for key, value in merged.items()), "ascii")

"""`deploy/compose.yaml` names files, options, ports and connectors that exist."""

import json
import shlex
from pathlib import Path
from typing import Any

import yaml

from controlplane.settings.properties import read_properties
from tests.deploy.test_deploy import accepted, last
from tests.deploy.test_monitoring import ALERTS

DEPLOY = ALERTS.parent
COMPOSE = DEPLOY / "compose.yaml"
OURS = ("controlplane", "connectors")
"""Services that run our image."""


def services() -> dict[str, dict[str, Any]]:
    """Services of the composition by name."""
    services: dict[str, dict[str, Any]] = document()["services"]
    return services


def document() -> dict[str, Any]:
    """The whole composition."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return loaded


def mounts() -> list[tuple[str, str, str]]:
    """Service, source and target of every volume."""
    return [
        (name, *volume.split(":")[:2])
        for name, service in services().items()
        for volume in service.get("volumes", ())
    ]


def test_every_part_is_there() -> None:
    """Kafka, Connect, a source and a sink, us attached, Prometheus, Grafana."""
    assert services().keys() >= {"kafka", "connect", *OURS, "prometheus", "grafana"}
    files = (DEPLOY / "compose" / "connectors").glob("*.json")
    classes = [json.loads(file.read_text())["config"]["connector.class"] for file in files]
    assert sorted(name.rpartition("FileStream")[2] for name in classes) == [
        "SinkConnector",
        "SourceConnector",
    ]


def test_mounted_files_exist() -> None:
    """A volume is a file or folder of the repository, or is declared."""
    declared = document()["volumes"]
    missing = [
        source
        for _, source, _ in mounts()
        if not (DEPLOY / source).exists() and source not in declared
    ]
    assert missing == []
    assert "./alerts.yaml" in {source for _, source, _ in mounts()}
    assert "./dashboard.json" in {source for _, source, _ in mounts()}


def test_services_depend_on_services() -> None:
    """Each waits for services that exist, and for the health of those that have a check."""
    for service in services().values():
        awaited = service.get("depends_on", {})
        assert set(awaited) <= services().keys()
        healthy = [name for name in awaited if name not in OURS and isinstance(awaited, dict)]
        assert all("healthcheck" in services()[name] for name in healthy)


def test_the_command_line_takes_the_commands() -> None:
    """Options of `serve` and `apply` exist; the trail lies in the volume of the image."""
    for name in OURS:
        command = [word.partition("=")[0] for word in services()[name]["command"]]
        assert accepted(command), shlex.join(command)
    trail = f"--trail=sqlite:///{last('VOLUME')}/trail.db"
    assert trail in services()["controlplane"]["command"]
    assert ("controlplane", "trail", last("VOLUME")) in mounts()


def test_addresses_are_those_of_services() -> None:
    """Host names of addresses are services; ports are published on the loopback address only."""
    worker = {
        line.key: line.value for line in read_properties(_file("connect-distributed.properties"))
    }
    assert worker["bootstrap.servers"] == "kafka:9092"
    assert worker["rest.advertised.host.name"] in services()
    assert "--connect-url=http://connect:8083" in services()["controlplane"]["command"]
    jobs = yaml.safe_load(_file("prometheus.yaml").read_text())["scrape_configs"]
    targets = [
        target for job in jobs for group in job["static_configs"] for target in group["targets"]
    ]
    assert targets == ["controlplane:8083"]
    published = [port for service in services().values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def _file(name: str) -> Path:
    return DEPLOY / "compose" / name

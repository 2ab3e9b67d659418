"""`deploy/compose.yaml` names files, options, ports and connectors that exist."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.settings.properties import read_properties
from tests.deploy.test_deploy import CONTAINERFILE, accepted, last
from tests.deploy.test_monitoring import ALERTS

DEPLOY = ALERTS.parent
COMPOSE = DEPLOY / "compose.yaml"
OURS = ("controlplane", "connectors")
"""Services of the composition that run our image."""


def services() -> dict[str, dict[str, Any]]:
    """Services of the composition by name."""
    services: dict[str, dict[str, Any]] = document()["services"]
    return services


def document() -> dict[str, Any]:
    """The parsed file `deploy/compose.yaml`."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return loaded


def mounts() -> list[tuple[str, str, str]]:
    """Service, source and target of every volume."""
    return [
        (name, *volume.split(":")[:2])
        for name, service in services().items()
        for volume in service.get("volumes", ())
    ]


def test_services_are_those_of_the_composition() -> None:
    """The services are Kafka, Connect, a source and a sink, ours, Prometheus and Grafana."""
    assert services().keys() >= {"kafka", "connect", *OURS, "prometheus", "grafana"}
    files = (DEPLOY / "compose" / "connectors").glob("*.json")
    classes = [json.loads(file.read_text())["config"]["connector.class"] for file in files]
    assert sorted(name.rpartition("FileStream")[2] for name in classes) == [
        "SinkConnector",
        "SourceConnector",
    ]


def test_grafana_reads_the_prometheus_of_the_composition() -> None:
    """The one data source has the type that the dashboard asks for, and a service's address."""
    (source,) = yaml.safe_load(_file("grafana-datasource.yaml").read_text())["datasources"]
    port = services()["prometheus"]["ports"][0].rpartition(":")[2]
    assert source["url"] == f"http://prometheus:{port}"
    assert source["isDefault"] is True
    variables = json.loads((DEPLOY / "dashboard.json").read_text())["templating"]["list"]
    (variable,) = (each for each in variables if each["type"] == "datasource")
    assert variable["query"] == source["type"] == "prometheus"


def test_grafana_loads_the_dashboard() -> None:
    """The one provider reads the folder to which the composition mounts the dashboard."""
    (provider,) = yaml.safe_load(_file("grafana-dashboards.yaml").read_text())["providers"]
    assert provider["type"] == "file"
    folder = provider["options"]["path"]
    targets = {source: target for name, source, target in mounts() if name == "grafana"}
    assert targets["./dashboard.json"] == f"{folder}/dashboard.json"
    home = services()["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/dashboard.json"
    provisioning = "/etc/grafana/provisioning"
    for kind in ("datasource", "dashboards"):
        target = targets[f"./compose/grafana-{kind}.yaml"]
        assert target.startswith(f"{provisioning}/{kind.removesuffix('s')}s/")


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
    """Services wait for existing ones; a public image that must be healthy first has a check."""
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
    worker = _worker()
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


IMAGES = {
    "kafka": "apache/kafka:${KAFKA_RELEASE:-3.9.1}",
    "connect": "apache/kafka:${KAFKA_RELEASE:-3.9.1}",
    "lines": "busybox",
    "prometheus": "prom/prometheus",
    "grafana": "grafana/grafana",
}
"""Public images by service; the others are built here."""


def test_images_are_public_or_ours() -> None:
    """Images are public ones, or ours, built from the Containerfile."""
    named = {name: service["image"] for name, service in services().items() if "image" in service}
    assert named == IMAGES
    built = {name: service["build"] for name, service in services().items() if "build" in service}
    assert built.keys() == {*OURS}
    for build in built.values():
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_published_ports_are_listened_on() -> None:
    """Each published port leads to the port of its service; none is used twice."""
    command = services()["controlplane"]["command"]
    listened = {
        "connect": _worker()["listeners"].rpartition(":")[2],
        "controlplane": _option(command, "--port"),
        "prometheus": "9090",
        "grafana": "3000",
    }
    ports = {name: service["ports"] for name, service in services().items() if service.get("ports")}
    assert {name: port.rpartition(":")[2] for name, (port,) in ports.items()} == listened
    assert f"EXPOSE {listened['controlplane']}" in CONTAINERFILE.read_text(encoding="utf-8")
    outside = [port.split(":")[1] for (port,) in ports.values()]
    assert len({*outside}) == len(outside)


def test_health_checks_ask_the_service_itself() -> None:
    """Each check asks the service itself, and allows two minutes for the start."""
    checks = {
        name: service["healthcheck"]
        for name, service in services().items()
        if "healthcheck" in service
    }
    assert checks.keys() == {"kafka", "connect"}
    for check in checks.values():
        assert check["test"][0] == "CMD"
        interval, timeout = (_seconds(check[key]) for key in ("interval", "timeout"))
        assert interval > 0 < timeout
        assert interval * check["retries"] >= 120
    advertised = services()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    command = checks["kafka"]["test"]
    assert f"PLAINTEXT://{command[command.index('--bootstrap-server') + 1]}" == advertised
    port = _worker()["listeners"].rpartition(":")[2]
    assert checks["connect"]["test"][-1] == f"http://127.0.0.1:{port}/connectors"


def test_volumes_are_used() -> None:
    """Every volume is mounted, files of the repository read-only; source and sink share one."""
    for name, service in services().items():
        for volume in service.get("volumes", ()):
            assert volume.startswith("./") == volume.endswith(":ro"), (name, volume)
    used = {source for _, source, _ in mounts()}
    assert document()["volumes"].keys() == {source for source in used if not source.startswith(".")}
    shared = [(name, target) for name, source, target in mounts() if source == "data"]
    assert sorted(shared) == [("connect", "/data"), ("lines", "/data")]
    for file in (DEPLOY / "compose" / "connectors").glob("*.json"):
        assert json.loads(file.read_text())["config"]["file"].startswith("/data/")


def _has_compose() -> bool:
    """True if this machine has the client of Compose, which needs no engine for a check."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "compose", "version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _has_compose(), reason="needs docker compose")
def test_compose_accepts_the_file() -> None:
    """Compose finds no unknown key, and every variable has a value."""
    command = ["docker", "compose", "-f", str(COMPOSE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def _option(command: list[str], name: str) -> str:
    (value,) = (word.partition("=")[2] for word in command if word.startswith(f"{name}="))
    return value


def _seconds(duration: str) -> int:
    match = re.fullmatch(r"(\d+)s", duration)
    assert match is not None, duration
    return int(match[1])


def _worker() -> dict[str, str]:
    lines = read_properties(_file("connect-distributed.properties"))
    return {line.key: line.value for line in lines}


def _file(name: str) -> Path:
    return DEPLOY / "compose" / name

"""A worker's file, given to a control plane inside of another program."""

from pathlib import Path

import pytest

from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.context import Worker
from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal, Settings
from controlplane.settings import SettingsError, told_to_plane

WORKER = """\
group.id=fleet
bootstrap.servers=one:9092
config.storage.topic=fleet-configs
offset.storage.topic=fleet-offsets
status.storage.topic=fleet-status
exactly.once.source.support=enabled
topic.tracking.allow.reset=false
consumer.group.id=sinks
connector.client.config.override.policy=${env::POLICY}
config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""

CONFIG = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}


def written(folder: Path, text: str) -> Path:
    """A worker's file."""
    path = folder / "worker.properties"
    path.write_text(text)
    return path


def test_what_is_told(tmp_path: Path) -> None:
    """All that decides, and nothing else; references are looked up where the program says."""
    told = told_to_plane(written(tmp_path, WORKER), {"POLICY": "None"})
    assert told == {
        "worker": Worker(
            group_id="fleet",
            consumer_group_id="sinks",
            bootstrap_servers="one:9092",
            topic_tracking_allow_reset=False,
            override_policy="None",
            exactly_once_source=True,
            config_providers=("env",),
        ),
        "topics": Topics("fleet-configs", "fleet-offsets", "fleet-status"),
        "exactly_once": True,
    }


def test_nothing_told(tmp_path: Path) -> None:
    """An empty file tells what no file does."""
    assert Settings(**told_to_plane(written(tmp_path, ""))) == Settings()


async def test_a_plane_of_such_a_worker(tmp_path: Path) -> None:
    """Its topics are written, its policy is enforced, and further settings stand beside."""
    told = told_to_plane(written(tmp_path, WORKER), {"POLICY": "None"})
    log = MemoryLog()
    async with ControlPlane.open(log, Settings(**told, profile="3.9")) as plane:
        overriding = CreateConnector("orders", {**CONFIG, "producer.override.acks": "1"})
        with pytest.raises(Refusal, match="The 'None' policy does not allow 'acks'"):
            await plane.execute(overriding)
        await plane.execute(CreateConnector("orders", CONFIG))
        await plane.execute(StopConnector("orders"))
        assert (plane.state.profile.release, plane.state.exactly_once) == ("3.9.2", True)
    ends = await log.ends(["fleet-configs"])
    assert ends["fleet-configs"][0] > 0
    assert set(await log.topics()) == {
        "fleet-configs",
        "fleet-offsets",
        "fleet-status",
        "connect-commands",
    }


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("exactly.once.source.support=maybe", r":1: exactly\.once\.source\.support is 'maybe'"),
        ("connector.client.config.override.policy=com.acme.Ours", "only a Java worker can ask"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, line: str, told: str) -> None:
    """It is named with its place."""
    with pytest.raises(SettingsError, match=told):
        told_to_plane(written(tmp_path, line))
    with pytest.raises(SettingsError, match=r"nowhere\.properties"):
        told_to_plane(tmp_path / "nowhere.properties")

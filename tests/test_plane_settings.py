"""A worker's file as settings of a control plane in another program."""

from pathlib import Path

import pytest

from controlplane.controller import CommandLimits
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Partitions, Refusal, Settings
from controlplane.plane_settings import plane_settings, plane_settings_of_file
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.retention import FOREVER, RetentionSettings
from controlplane.projection.snapshot_writer import SnapshotSettings
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.settings import Configuration, SettingsError
from controlplane.settings.sources import file_values, flag_values

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
key.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.partitions=3
status.storage.partitions=-1
controller.commands.waiting=7
follower.profiles.kept=2
upkeep.interval.ms=5000
upkeep.snapshots.lateness.ms=0
upkeep.retention.commands.ms=-1
"""

CONFIG = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}


def write_properties(folder: Path, text: str) -> Path:
    """Write a worker's file and return its path."""
    path = folder / "worker.properties"
    path.write_text(text)
    return path


def test_a_file_sets_every_setting_and_limit(tmp_path: Path) -> None:
    """The file sets every deciding setting and limit; references use the passed variables."""
    settings = plane_settings_of_file(
        write_properties(tmp_path, WORKER), {"POLICY": "None"}, profile="3.9"
    )
    assert settings == Settings(
        profile="3.9",
        worker=DecisionSettings(
            group_id="fleet",
            consumer_group_id="sinks",
            bootstrap_servers="one:9092",
            topic_tracking_allow_reset=False,
            override_policy="None",
            exactly_once_source=True,
            key_converter="org.apache.kafka.connect.storage.StringConverter",
            config_providers=("env",),
        ),
        topics=Topics("fleet-configs", "fleet-offsets", "fleet-status"),
        partitions=Partitions(offsets=3),
        exactly_once=True,
        limits=CommandLimits(commands_waiting=7),
        follower=FollowerLimits(profiles_kept=2),
        upkeep=UpkeepSettings(
            interval_ms=5_000,
            snapshots=SnapshotSettings(lateness_ms=0),
            retention=RetentionSettings(commands_ms=FOREVER),
        ),
    )


def test_an_empty_file_equals_no_file(tmp_path: Path) -> None:
    """An empty file has the same effect as no file."""
    assert plane_settings_of_file(write_properties(tmp_path, "")) == Settings()


@pytest.mark.parametrize(
    ("line", "administered"),
    [("", True), ("admin.listeners=", False), ("admin.listeners=http://:1", False)],
)
def test_administration_follows_the_file(tmp_path: Path, line: str, *, administered: bool) -> None:
    """The file can move administration to another listener or switch it off (KIP-495)."""
    file = tmp_path / "worker.properties"
    file.write_text(line, "ascii")
    assert plane_settings_of_file(file).administered is administered


def test_a_flag_beats_the_file(tmp_path: Path) -> None:
    """A flag overrides the file, as in every command."""
    flags = flag_values([("--override", "controller.commands.waiting", "9")])
    file = file_values(
        write_properties(tmp_path, "controller.commands.waiting=7\nupkeep.interval.ms=8\n")
    )
    settings = plane_settings(Configuration(flags, file))
    assert (settings.limits.commands_waiting, settings.upkeep.interval_ms) == (9, 8)


async def test_a_plane_uses_topics_and_policy_of_the_file(tmp_path: Path) -> None:
    """The plane creates and writes the file's topics, and enforces its policy."""
    settings = plane_settings_of_file(
        write_properties(tmp_path, WORKER), {"POLICY": "None"}, profile="3.9"
    )
    log = MemoryLog()
    async with ControlPlane.open(log, settings) as plane:
        overriding = CreateConnector("orders", {**CONFIG, "producer.override.acks": "1"})
        with pytest.raises(Refusal, match="The 'None' policy does not allow 'acks'"):
            await plane.execute(overriding)
        await plane.execute(CreateConnector("orders", CONFIG))
        await plane.execute(StopConnector("orders"))
        assert (plane.state.profile.release, plane.state.exactly_once) == ("3.9.2", True)
    ends = await log.ends(["fleet-configs"])
    assert ends["fleet-configs"][0] > 0
    assert await log.topics() == {
        "fleet-configs": 1,
        "fleet-offsets": 3,
        "fleet-status": 5,
        "connect-commands": 1,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("exactly.once.source.support=maybe", r":1: exactly\.once\.source\.support is 'maybe'"),
        ("connector.client.config.override.policy=com.acme.Ours", "which exists only in Java"),
        ("offset.storage.topic=a b/c", "is 'a b/c', which no topic can be called: use 1 to 249"),
        ("upkeep.retention.commands.ms=0", "is '0': use -1 or a whole number from 1"),
        ("upkeep.snapshots.kept=0", r"upkeep\.snapshots\.kept is '0': use a whole number from 1"),
        ("controller.write.patience.ms=30s", "is '30s': use a whole number from 1"),
    ],
)
def test_unusable_settings_are_refused(tmp_path: Path, line: str, message: str) -> None:
    """The error names the file, line and setting."""
    with pytest.raises(SettingsError, match=message):
        plane_settings_of_file(write_properties(tmp_path, line))
    with pytest.raises(SettingsError, match=r"nowhere\.properties"):
        plane_settings_of_file(tmp_path / "nowhere.properties")

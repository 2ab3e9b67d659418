"""Settings of a Spark session."""

import os
import signal
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from py4j.java_gateway import GatewayClient

from replay.engine.spark.session import SETTINGS, py4j_unlogged
from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, started


def test_the_configuration_that_turns_sparks_log_off_exists() -> None:
    """The log4j configuration that each new session names exists and turns Spark's log off."""
    option, _, url = SETTINGS["spark.driver.extraJavaOptions"].partition("=")
    assert option == "-Dlog4j2.configurationFile"
    lines = Path(unquote(urlsplit(url).path)).read_text(encoding="utf-8").splitlines()
    assert "rootLogger.level = off" in lines


class InterruptedConnection:
    """Connection to a JVM during whose requests the user presses Ctrl-C."""

    socket = None

    def send_command(self, _: str) -> str:
        """Be interrupted before the answer."""
        raise KeyboardInterrupt

    def close(self, *_: object) -> None:
        """Do nothing."""


def test_ctrl_c_during_a_request_to_spark_logs_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """py4j logs a traceback, and raises the interrupt; the command says that it was interrupted."""
    client = GatewayClient()
    monkeypatch.setattr(client, "_get_connection", InterruptedConnection)
    with py4j_unlogged(), pytest.raises(KeyboardInterrupt):
        client.send_command("x")
    assert caplog.records == []


@pytest.mark.java
@pytest.mark.prove  # a JVM of its own
def test_a_setting_that_spark_refuses_late_is_named(tmp_path: Path) -> None:
    """Spark reads some settings only in its first query; the error names the setting, too."""
    archive, setting = tmp_path / "archive", "spark.sql.shuffle.partitions"
    log = HISTORIES / "life-3.9.log.jsonl"
    assert call("capture", f"life={log}", archive, "--once").code == 0
    options = ("--engine", "spark", "--conf", f"{setting}=x")
    with started("state", archive, *options) as process:
        printed, error = process.communicate()
    assert (process.returncode, printed) == (2, "")
    assert error.startswith("Error: Spark has failed (")
    assert setting in error
    assert error.endswith("check --conf\n")


@pytest.mark.java
@pytest.mark.prove  # a JVM of its own
def test_an_ended_jvm_is_named(tmp_path: Path) -> None:
    """The error says that the JVM has ended, and is printed once, after Spark's own output."""
    archive = tmp_path / "archive"
    log = HISTORIES / "life-3.9.log.jsonl"
    assert call("capture", f"life={log}", archive, "--once").code == 0
    with started("watch", archive, "--engine", "spark", "--every", "1") as process:
        assert process.stdout is not None
        assert process.stdout.readline()  # Spark has started
        os.kill(_jvm_of(process.pid), signal.SIGKILL)
        _, error = process.communicate()
    assert process.returncode == 2
    assert error.splitlines()[-1].startswith("Error: Spark's JVM has ended, ")
    assert error.count("Error: Spark's JVM") == 1


def _jvm_of(process: int) -> int:
    """Process of the JVM that a process has started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    (jvm,) = (
        int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "java\n"
    )
    return jvm

"""Kafka in containers, for machines with neither a broker nor Maven.

A Java program of Kafka runs with the same arguments in the public image. Its container has the
network and the temporary files of this machine, so addresses and paths are the same.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

ENGINE = "docker"
INFO_TIMEOUT_S = 10
"""Seconds after which a silent container engine counts as missing."""

LIBRARIES = "/opt/kafka/libs/*"
"""Class path within the image: Kafka, Connect and its file connectors."""


class KafkaImage(NamedTuple):
    """Kafka's public image of a release; stands for a class path."""

    release: str

    @property
    def name(self) -> str:
        """Name and tag of the image."""
        return f"apache/kafka:{self.release}"


def run_command(
    image: KafkaImage, container: str, folder: Path, arguments: list[str], user: str
) -> list[str]:
    """Command line that runs Java in a container, in this folder; `user` is `uid:gid`."""
    files = tempfile.gettempdir()
    return [
        *(ENGINE, "run", "--rm", "--name", container, "--network", "host", "--user", user),
        *("--volume", f"{files}:{files}", "--workdir", str(folder)),
        *("--entrypoint", "java", image.name, *arguments),
    ]


def signal_command(container: str, signal_name: str) -> list[str]:
    """Command line that sends a signal to a container: one to `docker run` may not reach it."""
    return [ENGINE, "kill", "--signal", signal_name, container]


def this_user() -> str:
    """User of this process, as `uid:gid`."""
    return f"{os.getuid()}:{os.getgid()}"


def engine_answers() -> bool:
    """True if an engine runs containers here."""
    if shutil.which(ENGINE) is None:
        return False
    try:
        done = subprocess.run(
            [ENGINE, "info"], capture_output=True, timeout=INFO_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0

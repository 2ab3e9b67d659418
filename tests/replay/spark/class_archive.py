"""Archive of the classes that Spark's JVM loads, recorded by a separate JVM.

Usage: python -m tests.replay.spark.class_archive
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyspark

from replay.engine.spark.location import SparkLocation
from replay.engine.spark.session import SETTINGS, session
from tests.conftest import PROVE, ROOT
from tests.kafka.class_archives import ClassArchive, recorder
from tests.replay.cli.replay_calls import call

HISTORY = ROOT / "tests" / "histories" / "life-3.9.log.jsonl"


def _archive() -> ClassArchive:
    """Archive of the installed Spark."""
    return ClassArchive("spark", str(Path(pyspark.__file__).parent / "jars"))


def quick_settings() -> dict[str, str]:
    """Settings of a session that lives for seconds, with the class archive if it exists.

    They turn off the optimising compiler of the JVM, which halves its processor time.
    """
    return _settings(_archive().reading)


def record_classes() -> None:
    """Make the archive in `make prove`, unless it exists or another process is making it.

    It takes 27 seconds of processor time and saves three per JVM. `make test` starts only four
    JVMs, so it uses the archive but makes none.
    """
    if not PROVE or _archive().exists:
        return
    with recorder("spark") as is_ours:
        if is_ours and not _archive().exists:
            subprocess.run(
                [sys.executable, "-m", __name__], cwd=ROOT, check=True, capture_output=True
            )


def _settings(options: Sequence[str]) -> dict[str, str]:
    key = "spark.driver.extraJavaOptions"
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return {key: " ".join([SETTINGS[key], *quick, *options])}


def _record() -> None:
    """Fold a history with Spark; its JVM writes the archive when it ends."""
    archive = _archive()
    settings = _settings(archive.recording)
    with TemporaryDirectory() as folder, session(SparkLocation("local[2]", settings)) as spark:
        gateway: Any = spark.sparkContext._gateway
        for words in (("capture", HISTORY, folder), ("state", folder, "--engine", "spark")):
            result = call(*words)
            assert result.code in (0, 1), result
    # Spark's JVM ends when its standard input does.
    gateway.shutdown()
    gateway.proc.stdin.close()
    assert gateway.proc.wait() == 0
    archive.keep()


if __name__ == "__main__":
    _record()

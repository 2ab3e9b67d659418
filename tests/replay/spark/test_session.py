"""Settings of a Spark session."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from replay.engine.spark.session import SETTINGS


def test_the_configuration_that_turns_sparks_log_off_exists() -> None:
    """The log4j configuration that each new session names exists and turns Spark's log off."""
    option, _, url = SETTINGS["spark.driver.extraJavaOptions"].partition("=")
    assert option == "-Dlog4j2.configurationFile"
    lines = Path(unquote(urlsplit(url).path)).read_text(encoding="utf-8").splitlines()
    assert "rootLogger.level = off" in lines

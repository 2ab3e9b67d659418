"""Class paths of released jars, and the error if one cannot be resolved."""

from pathlib import Path

import pytest

from tests.jars import JarsUnavailable, classpath, java

JSON = "org.apache.kafka:connect-json:3.9.1"


@pytest.mark.java
@pytest.mark.prove
def test_class_path_has_at_most_one_slf4j_binding() -> None:
    """A silent class path has one slf4j binding, which prints nothing; others have no binding."""
    silent, bare = (classpath(JSON, silent=yes).split(":") for yes in (True, False))
    assert all(Path(jar).is_file() for jar in (*silent, *bare))
    bindings = [[Path(jar).name for jar in jars if "slf4j-" in jar] for jars in (silent, bare)]
    assert bindings == [["slf4j-api-1.7.36.jar", "slf4j-nop-1.7.36.jar"], ["slf4j-api-1.7.36.jar"]]


@pytest.mark.java
@pytest.mark.prove
def test_missing_artifact_is_named() -> None:
    """The message names the artifact that could not be resolved, and Maven's own reason."""
    with pytest.raises(JarsUnavailable, match=r"org\.apache\.kafka:connect-json:0\.0\.0: .*Could"):
        classpath("org.apache.kafka:connect-json:0.0.0")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Java the message says how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java.cache_clear()
    with pytest.raises(JarsUnavailable, match="Java is missing: apt-get install"):
        classpath("org.apache.kafka:connect-json:0.0.1")
    java.cache_clear()

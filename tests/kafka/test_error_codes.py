"""The table of error codes, compared with Kafka's own."""

import os
import subprocess
from pathlib import Path

import pytest

from controlplane.logs.kafka.protocol.error_codes import ERRORS, ErrorCode, described
from tests.jars import JarsUnavailable, classpath, compiled, java
from tests.patience import PATIENCE_S

JAVA_SOURCES = Path(__file__).parent / "java"
LAST = 120


def kafkas_names(cache: Path) -> dict[int, str]:
    """Names by code, as Kafka 4.3 has them."""
    try:
        path = classpath("org.apache.kafka:kafka-clients:4.3.0")
        classes = compiled(JAVA_SOURCES, path, cache)
    except JarsUnavailable as missing:
        pytest.skip(str(missing))
    command = [str(java()), "-cp", os.pathsep.join((str(classes), path)), "ErrorNames"]
    printed = subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S).stdout
    rows = (line.split() for line in printed.decode().splitlines())
    return {int(code): name for code, name in rows}


@pytest.mark.java
@pytest.mark.prove
def test_names_are_kafkas(tmp_path: Path) -> None:
    """Every code up to 120 is in the table, under Kafka's name."""
    theirs = {code: name for code, name in kafkas_names(tmp_path).items() if code <= LAST}
    assert {code: error.name for code, error in ERRORS.items()} == theirs


def test_codes_of_the_program_have_their_names() -> None:
    """The codes on which the program branches are rows of the table."""
    assert {code: ERRORS[code].name for code in ErrorCode} == {
        code: code.name for code in ErrorCode
    }


def test_sentences_can_be_continued() -> None:
    """A sentence begins in lower case and has no full stop, so that a message can continue.

    The description of a code has its sentence, name and number.
    """
    for code, error in ERRORS.items():
        assert error.sentence[0].islower(), error
        assert error.sentence[-1] not in ".:", error
        assert described(code) == f"{error.sentence} ({error.name}, code {code})"
    assert described(999).endswith("error code 999, which this program does not know")

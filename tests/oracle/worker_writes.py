"""Answers of a release's classes about writing and about their consumers (`Writing.java`)."""

import json
import os
import subprocess
from functools import cache
from typing import Any

from tests.jars import SHORT_LIVED, java
from tests.oracle.kafka import harness, release_path
from tests.patience import PATIENCE_S


@cache
def writing_answers(release: str) -> dict[str, Any]:
    """Answers by question, without the questions that do not apply to the release."""
    path = os.pathsep.join((str(harness()), release_path(release)))
    program = subprocess.run(
        [str(java()), *SHORT_LIVED, "-cp", path, "oracle.Writing"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE_S,
    )
    answers: dict[str, Any] = json.loads(program.stdout)
    return answers

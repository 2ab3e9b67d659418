"""Catalogues that are harvested from Kafka's jars, for tests that compare Kafka's documentation."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.core.releases.profiles import Profile
from controlplane.harvest import jar_harvest
from controlplane.harvest.catalogue_file import catalogue
from controlplane.plugins import kafkas_own
from tests.jars import ROOT, SHORT_LIVED, Artifacts, classpath, compiled, java, locked
from tests.patience import PATIENCE_S

SOURCES = Path(jar_harvest.__file__).parent
"""Folder of `Definitions.java`."""

CACHE = ROOT / ".cache" / "harvest"
COMPILED_AGAINST = "2.8.2"
"""Any release would do: the program reaches differences between releases by reflection."""

PARTS = ("runtime", "file", "json")
OFTEN = ("2.3.0", "2.8.2", "3.9.1", "4.3.0")
"""Releases of `make test`; one run of Maven resolves their class paths."""

WITHOUT_MIRROR = ("0.", "1.", "2.0.", "2.1.", "2.2.", "2.3.", "3.1.0")
"""Beginnings of the releases without a connect-mirror: it came with 2.4.0, and 3.1.0 lacks it."""


@cache
def definitions(release: str) -> bytes:
    """Output of `Definitions.java` for a release, computed once per version of the program."""
    path = class_path(release)
    program = (SOURCES / "Definitions.java").read_bytes()
    digest = hashlib.sha256(program + path.encode()).hexdigest()[:16]
    remembered = CACHE / f"{release}-{digest}.json"
    if not remembered.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with locked(CACHE / f"{release}.lock"):
            if not remembered.exists():
                fresh = remembered.with_suffix(f".{os.getpid()}.new")
                fresh.write_bytes(_printed(path))
                fresh.replace(remembered)
    return remembered.read_bytes()


def _printed(path: str) -> bytes:
    """Last line of the program's output, with the classes of a class path.

    The program is compiled once. The product compiles it in each run, which costs as much as the
    run itself; `tests/client/test_harvest.py` does so.
    """
    program = compiled(SOURCES, class_path(COMPILED_AGAINST), CACHE)
    with_program = os.pathsep.join((str(program), path))
    ended = subprocess.run(
        [str(java()), *SHORT_LIVED, "-cp", with_program, "Definitions"],
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return ended.stdout.splitlines()[-1]


def class_path(release: str) -> str:
    """The class path of a release, with MirrorMaker where the release has it."""
    return classpath(*_artifacts(release), silent=False, soon=map(_artifacts, OFTEN))


def _artifacts(release: str) -> Artifacts:
    parts = PARTS if release.startswith(WITHOUT_MIRROR) else (*PARTS, "mirror")
    return tuple(f"org.apache.kafka:connect-{part}:{release}" for part in parts)


@cache
def catalogue_of(release: str) -> dict[str, Any]:
    """The catalogue harvested from the jars of a release."""
    own = kafkas_own()
    return catalogue(jar_harvest.from_line(definitions(release), own), own, Profile.of(release))


def documentation(release: str) -> dict[str, dict[str, str]]:
    """Kafka's own documentation in a release, by scope and setting."""
    texts: dict[str, dict[str, str]] = catalogue_of(release)["documentation"]
    return texts


def harvested_catalogue(release: str, plugins: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """The catalogue file of a release's jars, with the further `plugins`."""
    catalogue = catalogue_of(release)
    return json.dumps(catalogue | {"plugins": [*catalogue["plugins"], *plugins]}).encode()


def with_documentation(release: str, plugins: Sequence[Mapping[str, Any]]) -> bytes:
    """A catalogue of only these plugins, with Kafka's own documentation in a release."""
    return json.dumps({"plugins": [*plugins], "documentation": documentation(release)}).encode()

"""Catalogues that are harvested from Kafka's jars, for tests that compare Kafka's documentation."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from controlplane.core.profiles import Profile
from controlplane.harvest import jars
from controlplane.harvest.written import catalogue
from controlplane.plugins import kafkas_own
from tests.jars import ROOT, JarsUnavailable, classpath

CACHE = ROOT / ".cache" / "harvest"


@cache
def definitions(release: str) -> bytes:
    """The line that `Definitions.java` prints about a release, asked once per version of it."""
    path = class_path(release)
    program = resources.files("controlplane.harvest").joinpath("Definitions.java").read_bytes()
    digest = hashlib.sha256(program + path.encode()).hexdigest()[:16]
    remembered = CACHE / f"{release}-{digest}.json"
    if not remembered.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        fresh = CACHE / f"{release}-{digest}.{os.getpid()}.new"
        fresh.write_bytes(jars.definitions(path))
        fresh.replace(remembered)
    return remembered.read_bytes()


def class_path(release: str) -> str:
    """The class path of a release, with MirrorMaker unless it was never published."""
    names = ["runtime", "file", "json", "mirror"]
    while True:
        try:
            artifacts = (f"org.apache.kafka:connect-{name}:{release}" for name in names)
            return classpath(*artifacts, silent=False)
        except JarsUnavailable:
            if names.pop() != "mirror":
                raise


@cache
def catalogue_of(release: str) -> dict[str, Any]:
    """The catalogue that is harvested from the jars of a release."""
    own = kafkas_own()
    return catalogue(jars.from_line(definitions(release), own), own, Profile.of(release))


def documentation(release: str) -> dict[str, dict[str, str]]:
    """Kafka's own documentation in a release, by scope and setting."""
    found: dict[str, dict[str, str]] = catalogue_of(release)["documentation"]
    return found


def harvested_catalogue(release: str, more: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """The catalogue file of a release's jars; `more` are further plugins in it."""
    found = catalogue_of(release)
    return json.dumps(found | {"plugins": [*found["plugins"], *more]}).encode()


def with_documentation(release: str, plugins: Sequence[Mapping[str, Any]]) -> bytes:
    """A catalogue of these plugins alone with Kafka's own documentation in a release."""
    return json.dumps({"plugins": [*plugins], "documentation": documentation(release)}).encode()

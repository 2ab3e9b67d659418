"""Class path of an old Connect worker, which searches every jar on it for plugins."""

import os
from pathlib import Path
from zipfile import ZipFile

SEARCHES_LESS = (3, 6)
"""First release whose workers can find plugins without a search (KIP-898)."""

LINE_BYTES = 70
"""Bytes of a manifest's line without the leading space of a continuation; Java allows 72."""


def searched_less(release: str, path: str, folder: Path) -> str:
    """Class path on which a worker before 3.6 searches only the jars of Kafka Connect.

    An empty jar in `folder` names the other jars in its manifest. A search of them would take two
    seconds of processor time, and find no plugin.
    """
    if tuple(map(int, release.split(".")[:2])) >= SEARCHES_LESS:
        return path
    jars = path.split(os.pathsep)
    searched = [jar for jar in jars if Path(jar).name.startswith("connect-")]
    names = " ".join(Path(jar).as_uri() for jar in jars if jar not in searched)
    with ZipFile(folder / "others.jar", "w") as others:
        manifest = f"Manifest-Version: 1.0\n{_wrapped(f'Class-Path: {names}')}\n"
        others.writestr("META-INF/MANIFEST.MF", manifest)
    return os.pathsep.join([*searched, str(folder / "others.jar")])


def _wrapped(line: str) -> str:
    """Line of a manifest, broken where it is too long."""
    parts = (line[at : at + LINE_BYTES] for at in range(0, len(line), LINE_BYTES))
    return "\n ".join(parts)

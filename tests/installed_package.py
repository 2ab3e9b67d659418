"""Installed packages that declare connectors in Python."""

from pathlib import Path

import pytest

from controlplane.plugins import GROUP


def declare(monkeypatch: pytest.MonkeyPatch, folder: Path, **points: str) -> None:
    """Create an installed package that declares connectors."""
    info = folder / "declaring-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: declaring\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
    (folder / "declared.py").write_text(
        "class A:\n    kind, version, config = 'source', '1', ()\nnot_a_class = 1\n"
    )
    monkeypatch.syspath_prepend(str(folder))


def declare_hook(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Declare the class `acting.A`; return the path of the file that its hook creates."""
    created = folder / "created"
    (folder / "acting.py").write_text(
        "from pathlib import Path\n"
        "class A:\n"
        "    kind, version, config = 'source', '1', ()\n"
        "    @staticmethod\n"
        "    def alter_offsets(config, offsets):\n"
        f"        Path({str(created)!r}).touch()\n"
        "        return True\n"
    )
    declare(monkeypatch, folder, a="acting:A")
    return created


STOPPED_WITH_HOOK = (
    ("connector-a", '{"properties":{"connector.class":"acting.A","name":"a"}}'),
    ("target-state-a", '{"state":"PAUSED","state.v2":"STOPPED"}'),
)
"""Keys and values of the config records of a stopped connector of that class."""

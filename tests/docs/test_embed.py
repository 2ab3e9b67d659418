"""docs/embed.md lists every command with its fields."""

import re
from typing import get_args

import msgspec

from controlplane.core.commands import AnyCommand, OffsetChange
from tests.tidy.source import ROOT

TEXT = (ROOT / "docs" / "embed.md").read_text(encoding="utf-8")


def fields_of(kind: type[msgspec.Struct]) -> str:
    """Fields of a command in the table's form: those with a default in brackets."""
    fields = msgspec.structs.fields(kind)
    needed = [f"`{field.name}`" for field in fields if field.required]
    optional = [f"`{field.name}`" for field in fields if not field.required]
    return ", ".join([*needed, f"[{', '.join(optional)}]"] if optional else needed)


def test_every_command_is_listed_with_its_fields() -> None:
    """The table has a row for each command, in the order of the code, and no other."""
    rows = re.findall(r"^\| `([A-Z]\w+)` \| (.+?) \| [a-z]", TEXT, re.MULTILINE)
    assert rows == [(kind.__name__, fields_of(kind)) for kind in get_args(AnyCommand)]


def test_an_offset_is_explained_with_its_fields() -> None:
    """The document explains `OffsetChange`, which two commands take."""
    needed, optional = "partition", "offset, kind"
    assert [field.name for field in msgspec.structs.fields(OffsetChange)] == [
        needed,
        *optional.split(", "),
    ]
    assert f"`OffsetChange({needed}, [{optional}])`" in TEXT

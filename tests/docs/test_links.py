"""Links in documents lead to existing headings and files."""

import re
from pathlib import Path

import pytest

from tests.docs.consoles import ROOT

DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("scenarios/*.md"))
)


def text_of(document: Path) -> str:
    """Document without its code, in which brackets and hashes mean something else."""
    return re.sub(r"^```.*?^```$", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(document: Path) -> set[str]:
    """Anchors of a document: its headings as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", text_of(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name: str) -> None:
    """Links lead to existing files and headings."""
    document = ROOT / name
    links = re.findall(r"\]\(([^()\s]+)\)", text_of(document))
    lost: list[str] = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if "://" not in link and not (target.exists() and anchor in {"", *anchors(target)}):
            lost.append(link)
    assert not lost


def test_every_guide_is_in_the_index() -> None:
    """The index links every guide."""
    index = (ROOT / "docs" / "guide.md").read_text("utf-8")
    guides = {path.name for path in (ROOT / "docs").glob("*.md")} - {"guide.md"}
    assert {name for name in guides if f"({name})" not in index} == set()

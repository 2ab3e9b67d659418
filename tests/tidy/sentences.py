"""Rules about sentences: their length, and the openings of those in pages and scenarios."""

import ast
import inspect
import re
from collections.abc import Iterator

from tests.tidy.source import Offence, SourceFile
from tests.tidy.wording import OPENINGS

MOST_WORDS = 20
"""Maximum number of words in a sentence: one idea."""

_CODE_BLOCK = re.compile(
    r"^( *)(```|~~~).*?^\1\2[^\n]*$|(?<=\n\n)( {4}[^\n]*\n)+", re.MULTILINE | re.DOTALL
)
_NO_PROSE = re.compile(r"\s*(\||#|<|!\[|\[[^\]]+\]: )")
"""Beginning of a line of a table, a heading, HTML, a picture or the target of a link."""

_LIST_ITEM = re.compile(r"^\s*([-*]|\d+\.) ")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_QUOTED = re.compile(r"``.+?``|`[^`]+`|\"[^\"]+\"|“[^”]+”")
"""Code and quotations: one word each."""

_MARKS = re.compile(r"\*\*|(?<!\w)\*|\*(?!\w)|(?<!\w)_|_(?!\w)")
_END = re.compile(r"(?<=[.!?])[)\"'”]*\s+(?=[^a-z\s])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|No)\.")
_LETTER = re.compile(r"[^\W\d_]")

_NO_SENTENCES = re.compile(r"\n[ ]*(?:Raises|Args):|\x08|\bExit\s+code")
"""Beginning of a list in a docstring: errors, parameters, a table of click's, exit codes."""


def long_sentences(source: SourceFile) -> Iterator[Offence]:
    """A sentence of prose has at most `MOST_WORDS` words; code and quotations count as one word."""
    for line, paragraph in _paragraphs(source.text):
        for sentence in _END.split(_plain(paragraph)):
            words = [word for word in _LINK.sub(r"\1", sentence).split() if _LETTER.search(word)]
            if len(words) > MOST_WORDS:
                yield Offence(line, f"{len(words)} words: {' '.join(words)}")


def long_docstring_sentences(source: SourceFile) -> Iterator[Offence]:
    """A sentence of a docstring has at most `MOST_WORDS` words.

    Docstrings of attributes count, too; lists do not.
    """
    for node in source.nodes(ast.Expr):
        match node.value:
            case ast.Constant(value=str(text)) if len(text.split()) > MOST_WORDS:
                prose = _NO_SENTENCES.split(inspect.cleandoc(text))[0]
                for offence in long_sentences(SourceFile(source.path, prose)):
                    yield Offence(node.lineno + offence.line - 1, offence.problem)


def sentence_openings(source: SourceFile) -> Iterator[Offence]:
    """A sentence of prose opens with its subject or its verb; a link may open with a title.

    The prose of a scenario is its comments.
    """
    text = source.text
    if source.path.endswith(".scenario"):
        lines = [line[1:] if line.startswith("#") else "" for line in text.split("\n")]
        text = "\n".join(lines)
    for line, paragraph in _paragraphs(text):
        for sentence in _END.split(_plain(paragraph)):
            word = sentence.strip().partition(" ")[0].rstrip(",:")
            if word in OPENINGS:
                yield Offence(line, f"a sentence opens with {word}")


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items with the number of their first line."""
    blank = _CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    lines: list[str] = []
    for number, line in enumerate([*blank.split("\n"), ""], start=1):
        ends = not line.strip() or _NO_PROSE.match(line)
        if lines and (ends or _LIST_ITEM.match(line)):
            yield number - len(lines), " ".join(lines)
            lines = []
        if not ends:
            lines.append(_LIST_ITEM.sub("", line, count=1).strip())


def _plain(paragraph: str) -> str:
    """The paragraph without marks of emphasis; code and quotations are a word each."""
    return _ABBREVIATION.sub(r"\1", _MARKS.sub("", _QUOTED.sub("Code", paragraph)))

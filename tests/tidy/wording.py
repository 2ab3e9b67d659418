"""Rules about words: openings of docstrings and comments, names of modules and classes."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from typing import cast

from tests.tidy.source import Offence, SourceFile

BindingNode = ast.Name | ast.arg | ast.MatchAs | ast.MatchStar | ast.ExceptHandler

OPENINGS = {
    *("Of", "That", "Those", "What", "Whatever", "Which", "Who", "Whoever", "Whom", "Whose"),
    *("Whether", "Why", "How", "To", "Where"),
}
"""First words of sentences that put their subject last."""

FRAGMENTS = {
    *("And", "But", "It", "Its", "Neither", "Nor", "Not", "Nothing", "Or", "So", "Their", "They"),
}
"""First words of docstrings whose subject is missing, or in the name alone."""

NOUNS_IN_ING = {
    *("binding", "coalescing", "embedding", "encoding", "fencing", "forwarding", "heading"),
    *("listing", "logging", "monitoring", "packaging", "routing", "scheduling", "setting"),
    *("streaming", "string", "wording"),
}
"""Nouns that look like gerunds, and gerunds that are the field's term."""

PRONOUNS = {
    *("about", "alike", "apart", "asked", "begun", "done", "found", "given", "kept", "known"),
    *("looked", "ours", "seen", "shown", "told", "together", "wanted", "when", "where", "who"),
    *("whole", "written"),
}
"""Participles, pronouns and adverbs, which say nothing about a module."""

VAGUE = {
    *("About", "Ask", "Asked", "Asker", "Done", "Found", "Given", "Kept", "Known", "Look"),
    *("Looked", "Need", "One", "Part", "Place", "Reader", "Row", "Seen", "Shown", "Told"),
    *("Layered", "Listening", "Meaning", "Offering", "Opened", "Opening", "Ordering", "Piece"),
    *("Played", "Reading", "Rebalancing", "Routed", "Sighting", "Standing", "Together"),
    *("Wanted", "Whole", "Work"),
}
"""Class names that need a further noun."""

VAGUE_VARIABLES = {"it", "one", "told"}
"""Names of variables and parameters that say nothing about their value."""

VAGUE_LOCALS = VAGUE_VARIABLES | {
    *("asked", "found", "given", "here", "known", "more", "seen", "some", "there", "wanted"),
    "what",
}
"""Names of local variables, and of parameters of private functions, that say nothing."""

VAGUE_FUNCTIONS = (VAGUE_LOCALS - {"given", "more", "what"}) | {
    *("about", "done", "give", "got", "kept", "said", "shown", "whole", "written"),
}
"""Names of functions that do not say what they do.

`given` is a verb of scenarios, `what` belongs to the Python API (`HistoryEvent`), and the report
has fields named `more`.
"""

RESERVED = {"Source", "Sink"}
"""Names that only the API for authors of connectors uses."""


COMMENT_MARKS = {
    **dict.fromkeys((".java", ".js"), r"//|/\*\*?|\*"),
    ".sql": "--",
}
"""Patterns that begin a comment, by the ending of a file; in other files it is `#`."""

_REFUSED_SOMEWHERE = re.compile(rf"#\s*(?:{'|'.join(OPENINGS)})\b")
"""Text that may be a comment with such an opening."""

_REFUSED_WORD = re.compile(rf"(?:{'|'.join(OPENINGS)})(?![A-Za-z])")
"""Text without such a word has no such sentence."""

_QUOTED = re.compile(r"``.*?``|`[^`]*`|\"[^\"]*\"", re.DOTALL)
"""Code and quotations in a docstring."""

_LIST_ITEM = re.compile(r"\s|[-*] |\d+\. ")
"""Beginning of a line that is a list item, or that is indented below one or below `Raises:`."""

_OPENING_WORD = re.compile(r"(?:^|(?<!e\.g)(?<!i\.e)(?<!etc)[.!?][)\"']*\s+)([A-Za-z]+)")
"""The first word of a paragraph or of a sentence after another one."""

COMMENTED = ("*.py", "*.toml", "*.properties", "*.sql", "*.java", "*.js", "tools/*", ".ci/*")
"""Files whose comments are checked."""


def openings(source: SourceFile) -> Iterator[Offence]:
    """A docstring opens with a noun or a verb, also that of an attribute."""
    for node in source.nodes(ast.Expr):
        match node.value:
            case ast.Constant(value=str(text)):
                words = text.split(maxsplit=1)
                if words and words[0].rstrip(",:") in OPENINGS | FRAGMENTS:
                    yield Offence(node.lineno, f"opens with {words[0]}")


def later_openings(source: SourceFile) -> Iterator[Offence]:
    """A later sentence of a docstring opens with its subject or its verb, too."""
    for node in source.nodes(ast.Expr):
        match node.value:
            case ast.Constant(value=str(text)) if _REFUSED_WORD.search(text):
                for line, prose in _prose(text):
                    for match in _OPENING_WORD.finditer(prose):
                        later = line or match.start()
                        if later and match[1] in OPENINGS:
                            line_number = node.lineno + line + prose.count("\n", 0, match.start(1))
                            yield Offence(line_number, f"a sentence opens with {match[1]}")


def _prose(docstring: str) -> Iterator[tuple[int, str]]:
    """Paragraphs with their line number from 0; code and quotations have become `_`.

    Lists, blocks such as `Raises:` and their continued lines are no prose.
    """
    text = _QUOTED.sub(lambda quoted: "_" + "\n" * quoted[0].count("\n"), docstring)
    lines = text.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    paragraph: list[str] = []
    in_list = False
    for number, line in enumerate([*lines, ""]):
        words = line if number == 0 else line[margin:]
        in_list = bool(words.strip()) and (in_list or bool(_LIST_ITEM.match(words)))
        if words.strip() and not in_list:
            paragraph.append(words)
        elif paragraph:
            yield number - len(paragraph), "\n".join(paragraph)
            paragraph = []


def comment_openings(source: SourceFile) -> Iterator[Offence]:
    """A comment opens with its subject or its verb; only its first line is checked."""
    lines = source.text.splitlines()
    continued = -1
    for line, column, text in _comments(source):
        words = text.split(maxsplit=1)
        alone = not lines[line - 1][:column].strip()
        if words and not (alone and line == continued) and words[0].rstrip(",:") in OPENINGS:
            yield Offence(line, f"opens with {words[0]}")
        continued = line + 1 if words and alone else -1


def _comments(source: SourceFile) -> Iterator[tuple[int, int, str]]:
    """Line, column and text of each line of a comment; in Python, strings hold no comments."""
    if source.path.endswith(".py"):
        if not _REFUSED_SOMEWHERE.search(source.text):  # finding all tokens takes seconds
            return
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type == tokenize.COMMENT:
                yield *token.start, token.string.lstrip("#")
        return
    mark = COMMENT_MARKS.get(source.path[source.path.rfind(".") :], "#")
    comment = re.compile(rf"(?:^|\s)(?:{mark})(?:\s+(.*)|$)")
    for line, text in enumerate(source.text.splitlines(), 1):
        if match := comment.search(text):
            yield line, match.start(), match[1] or ""


def module_names(source: SourceFile) -> Iterator[Offence]:
    """A module has a noun of the field as name; so has a folder."""
    for name in source.module.split("."):
        last = name.rpartition("_")[2]
        if last in PRONOUNS or (last.endswith("ing") and last not in NOUNS_IN_ING):
            yield Offence(1, f"{name} is no noun")


def class_names(source: SourceFile) -> Iterator[Offence]:
    """A class name is neither a vague noun alone nor a name that the connector API uses."""
    reserved = set() if source.inside("controlplane/connect/") else RESERVED
    for line, name in _classes(source):
        if name.lstrip("_") in VAGUE | reserved:
            yield Offence(line, f"{name} does not say of what")


def variable_names(source: SourceFile) -> Iterator[Offence]:
    """A variable or parameter has a name that says what it holds."""
    nodes = source.nodes(ast.Name, ast.arg, ast.MatchAs, ast.MatchStar, ast.ExceptHandler)
    vague = [
        (node, name)
        for node in cast("Iterator[BindingNode]", nodes)
        if (name := _bound_name(node)) and name in VAGUE_LOCALS
    ]
    public = set(map(id, _named_by_callers(source.tree.body, private=False))) if vague else set()
    for node, name in vague:
        if name in VAGUE_VARIABLES or id(node) not in public:
            yield Offence(node.lineno, f"{name} does not say of what")


def _bound_name(node: BindingNode) -> str | None:
    """Name that the node binds to a value; None if it binds none."""
    match node:
        case ast.Name(id=name, ctx=context):
            return name if isinstance(context, ast.Store) else None
        case ast.arg(arg=name):
            return name
    return node.name


def function_names(source: SourceFile) -> Iterator[Offence]:
    """A function or method says what it does or returns, an attribute what it holds."""
    for node in source.nodes(ast.FunctionDef, ast.AsyncFunctionDef, ast.Attribute):
        match node:
            case ast.FunctionDef(name=str(name)) | ast.AsyncFunctionDef(name=str(name)):
                vague = VAGUE_FUNCTIONS
            case ast.Attribute(attr=str(name), ctx=ast.Store()):
                vague = VAGUE_LOCALS
            case _:
                continue
        if name.lstrip("_") in vague:
            yield Offence(node.lineno, f"{name} does not say of what")


def _named_by_callers(body: list[ast.stmt], *, private: bool) -> Iterator[ast.expr | ast.arg]:
    """Fields, and parameters of public functions: their names are visible to callers."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield from _named_by_callers(node.body, private=private or _is_private(name))
                yield from (line.target for line in node.body if isinstance(line, ast.AnnAssign))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not private and not _is_private(name):
                    yield from (arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def several_meanings(sources: list[SourceFile]) -> list[str]:
    """Class names and type aliases that several files define, each with its places.

    In packages, a leading underscore does not make another name. Classes that only group tests are
    left out: their module completes their name.
    """
    places: defaultdict[str, set[str]] = defaultdict(set)
    in_packages: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources:
        for line, name in _classes(source):
            place = f"{source.path}:{line}"
            if source.in_package:
                in_packages[name.lstrip("_")].add(place)
            if not (source.is_test and name.startswith("Test")):
                places[name].add(place)
    return sorted(
        {
            f"{name}: {' '.join(sorted(definitions))}"
            for by_name in (places, in_packages)
            for name, definitions in by_name.items()
            if len(definitions) > 1
        }
    )


def _classes(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Every class, and every alias of a type at the top of a file; type variables are local."""
    for definition in source.nodes(ast.ClassDef):
        yield definition.lineno, definition.name
    for node in source.tree.body:
        match node:
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
                continue
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.lstrip("_")[:1].isupper() and not name.isupper():
                    yield node.lineno, name

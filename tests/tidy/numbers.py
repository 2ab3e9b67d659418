"""Rules about numbers with one place: HTTP status codes and Kafka releases."""

import ast
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import cast

from tests.tidy.source import Offence, SourceFile

STATUS_HOME = "controlplane/rest/errors.py"
RELEASE_HOME = "controlplane/core/releases/profiles.py"
STATUSES = {int(status) for status in HTTPStatus if status >= HTTPStatus.OK}
STATUS_NAME = re.compile(r"status|code|http", re.IGNORECASE)
RELEASE = re.compile(r"\d+\.\d+(\.\d+)?|kip")
RELEASE_NAMES = {"release", "releases"}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def status_codes(source: SourceFile) -> Iterator[Offence]:
    """A number that is an HTTP status is suspicious, unless its name is not about HTTP.

    `LIMIT = 500`, `size: int = 200` and `wait(timeout_ms=500)` are allowed;
    `if status == 404`, `Answer(404)` and `NOT_FOUND_STATUS = 404` are offences.
    """
    if not source.in_package or source.inside(STATUS_HOME):
        return
    named = {id(value) for value in _named_values(source)}
    for constant in source.nodes(ast.Constant):
        if type(constant.value) is int and constant.value in STATUSES and id(constant) not in named:
            yield Offence(constant.lineno, f"{constant.value} is a status code: {STATUS_HOME}")
    for node in source.nodes(ast.Name, ast.Attribute, ast.alias):
        if _word(node) == "HTTPStatus":
            line = cast("ast.expr | ast.alias", node).lineno
            yield Offence(line, f"HTTPStatus belongs into {STATUS_HOME}")


def _named_values(source: SourceFile) -> Iterator[ast.expr]:
    """Values bound to names that are not about HTTP."""
    for node in source.nodes(ast.Assign, ast.AnnAssign, ast.keyword, ast.arguments):
        match node:
            case ast.Assign(targets=[target], value=value) if not _is_status(_word(target)):
                yield value
            case ast.AnnAssign(target=target, value=ast.expr() as value) if not _is_status(
                _word(target)
            ):
                yield value
            case ast.keyword(arg=str(name), value=value) if not _is_status(name):
                yield value
            case ast.arguments():
                yield from _defaults(node)


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    paired = [
        *zip(reversed(positional), reversed(arguments.defaults), strict=False),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    yield from (value for name, value in paired if value and not _is_status(name.arg))


def _is_status(name: str) -> bool:
    return bool(STATUS_NAME.search(name))


def _word(node: ast.AST) -> str:
    """Last part of a name: `b` of `a.b`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name
    return ""


def release_comparisons(source: SourceFile) -> Iterator[Offence]:
    """Only the table of releases compares releases with each other."""
    if not source.in_package or source.inside(RELEASE_HOME):
        return
    for comparison in source.nodes(ast.Compare):
        if _compares_release(comparison):
            yield Offence(comparison.lineno, f"a release is compared: {ast.unparse(comparison)}")
    for case in source.nodes(ast.MatchValue):
        if _is_release(case.value):
            yield Offence(case.lineno, f"a release is matched: {ast.unparse(case)}")


def _compares_release(node: ast.Compare) -> bool:
    operands = [node.left, *node.comparators]
    if any(map(_is_release, operands)):
        return True
    ordered = any(isinstance(operator, ORDER) for operator in node.ops)
    return ordered and any(
        _word(operand) in RELEASE_NAMES or _is_numbers(operand) for operand in operands
    )


def _is_numbers(node: ast.expr) -> bool:
    """True for a tuple of integers, such as `(3, 4)`."""
    return isinstance(node, ast.Tuple) and all(
        isinstance(item, ast.Constant) and type(item.value) is int for item in node.elts
    )


def _is_release(node: ast.expr) -> bool:
    """True for the name of a release, or a collection that contains one."""
    match node:
        case ast.Constant(value=str(text)):
            return bool(RELEASE.fullmatch(text))
        case ast.Tuple(elts=items) | ast.Set(elts=items) | ast.List(elts=items):
            return any(map(_is_release, items))
    return False

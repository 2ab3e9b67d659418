"""Output of documents: tables for people, JSON or YAML for machines and for files.

Tables hide secrets. JSON and YAML have the cluster's data as they are, so that other commands can
take them as input. In answers about past changes, the service hides secrets in every form.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from typing import Any

import click
import yaml

from controlplane.core.text.value_text import plain
from controlplane.terminal.command_errors import flush, write
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.output import print_json, say
from controlplane.terminal.table_text import wide_option

TABLE = "table"
FORMS = (TABLE, "json", "yaml")


def output_option(command: Decorated) -> Decorated:
    """Add `-o table|json|yaml` and `--wide`; the command gets `output`."""
    return _output_option(command, "with secrets")


def output_option_of_diff(command: Decorated) -> Decorated:
    """Add the options of `output_option`; the help says that `diff --from` hides secrets."""
    return _output_option(command, "with secrets; --from hides them")


def output_option_without_secrets(command: Decorated) -> Decorated:
    """Add the options of `output_option`, for answers in which the service hides secrets."""
    return _output_option(command, "without secrets")


def _output_option(command: Decorated, secrets: str) -> Decorated:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMS),
        default=TABLE,
        help=f"Tables for people, JSON or YAML for machines, {secrets}. [default: table]",
    )(wide_option(command))


@contextmanager
def before_document(output: str) -> Iterator[None]:
    """Context in which tables go to standard error if the output is JSON or YAML.

    Standard output then contains only the JSON or YAML document.
    """
    flush()
    with nullcontext() if output == TABLE else redirect_stdout(sys.stderr or StringIO()):
        yield


def print_document(value: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    if output == "yaml":
        write(_yaml(plain(value)))
    else:
        print_json(value)


def _yaml(value: Any) -> str:
    # Another encoding of the output may lack a character; YAML has escapes for it.
    is_unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=is_unicode, width=10_000)
    return text


def json_line(value: Any) -> str:
    """A JSON value on one line."""
    return json.dumps(plain(value))


def say_pairs(pairs: Mapping[str, str], indent: str = "") -> None:
    """Print names and values, aligned, one pair per line."""
    width = max(map(len, pairs), default=0) + 2
    for name, value in pairs.items():
        say(f"{indent}{name + ':':<{width}}{value}".rstrip())

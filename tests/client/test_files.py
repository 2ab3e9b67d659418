"""Connector files in every form of Connect, kcctl and our own output."""

import json
from pathlib import Path
from typing import Any

import pytest

from controlplane.client.connectors.connector_files import DeclaredConnector, read_declared
from controlplane.terminal.command_errors import InputRefused

CONFIG = {"connector.class": "C", "name": "orders", "tasks.max": "1"}

FORMS = {
    "flat.json": '{"name": "orders", "connector.class": "C", "tasks.max": 1}',
    "post.json": '{"name": "orders", "config": {"connector.class": "C", "tasks.max": "1"}}',
    "answer.json": '{"name": "orders", "config": {"connector.class": "C", "tasks.max": "1"},'
    ' "tasks": [], "type": "sink"}',
    "expanded.json": '{"orders": {"status": {}, "info": {"name": "orders", "config":'
    ' {"connector.class": "C", "tasks.max": "1"}}}}',
    "moved.json": '{"connectors": {"orders": {"name": "orders", "config":'
    ' {"connector.class": "C", "tasks.max": "1"}}}}',
    "list.json": '[{"name": "orders", "connector.class": "C", "tasks.max": "1"}]',
    "java.properties": "# one\nname = orders\nconnector.class: C\ntasks.max=\\\n 1\n",
    "no-suffix": "name=orders\nconnector.class=C\ntasks.max=1\n",
    "flat.yaml": "name: orders\nconnector.class: C\ntasks.max: 1\n",
    "post.yml": "name: orders\nconfig: {connector.class: C, tasks.max: 1}\n",
    "bom.properties": "\ufeffname=orders\nconnector.class=C\ntasks.max=1\n",
    "bom.json": '\ufeff{"name": "orders", "connector.class": "C", "tasks.max": 1}',
}


def write_file(folder: Path, name: str, text: str) -> str:
    """Write a file; return its name on the command line."""
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_declares_the_connector(tmp_path: Path, form: str) -> None:
    """Each form of the file declares the same connector."""
    (connector,) = read_declared([write_file(tmp_path, form, FORMS[form])])
    assert (connector.name, connector.config) == ("orders", CONFIG)


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ('{"a": 1.50}', {"a": "1.50"}),
        ('{"a": 1e3}', {"a": "1e3"}),
        ('{"a": 12345678901234567890}', {"a": "12345678901234567890"}),
        ('{"a": true, "b": null}', {"a": "true", "b": None}),
    ],
)
def test_values_are_texts(tmp_path: Path, text: str, config: dict[str, Any]) -> None:
    """Values become text as in Connect; numbers keep their spelling."""
    (connector,) = read_declared([write_file(tmp_path, "a.json", text)], "orders")
    assert connector.config == {**config, "name": "orders"}


def test_yaml_dates_and_numbers_are_texts(tmp_path: Path) -> None:
    """YAML dates and numbers keep their spelling."""
    text = "name: orders\nday: 2026-01-02\nversion: 1.10\n"
    (connector,) = read_declared([write_file(tmp_path, "a.yaml", text)])
    assert connector.config == {"name": "orders", "day": "2026-01-02", "version": "1.10"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("name: true\nconfig: {connector.class: C, name: true}", "true"),
        ("name: 1.50\nconfig: {connector.class: C}", "1.50"),
        ("1.50: {config: {connector.class: C}}", "1.50"),
    ],
)
def test_a_yaml_name_keeps_its_spelling(tmp_path: Path, text: str, name: str) -> None:
    """A name may look like a number or a boolean; it has one spelling in every form."""
    (connector,) = read_declared([write_file(tmp_path, "a.yaml", text)])
    assert (connector.name, connector.config["name"]) == (name, name)


@pytest.mark.parametrize("value", ["!!bool maybe", "!!int ''", "!!int '-'"])
def test_a_yaml_tag_that_its_value_contradicts_is_refused(tmp_path: Path, value: str) -> None:
    """The parser fails at such a value in a way of its own."""
    with pytest.raises(InputRefused, match="has no connector: it cannot be parsed"):
        read_declared([write_file(tmp_path, "a.yaml", f"name: x\nb: {value}")])


def test_an_initial_state_and_offsets_are_kept(tmp_path: Path) -> None:
    """KIP-980 and KIP-995; numbers of offsets stay numbers."""
    offsets = [{"partition": {"f": "x"}, "offset": {"position": 5, "share": 0.5}}]
    document = {"name": "a", "config": {}, "initial_state": "STOPPED", "initial_offsets": offsets}
    path = write_file(tmp_path, "a.json", json.dumps(document))
    assert read_declared([path]) == [
        DeclaredConnector("a", {"name": "a"}, "STOPPED", offsets, path)
    ]


def test_the_files_of_a_directory_are_read_in_name_order(tmp_path: Path) -> None:
    """A directory's connector files are read in name order; other files are ignored."""
    for name in ("b.json", "a.properties", "notes.txt"):
        write_file(tmp_path, name, f'{{"name": "{name}"}}' if name[0] == "b" else f"name={name}")
    assert [connector.name for connector in read_declared([str(tmp_path)])] == [
        "a.properties",
        "b.json",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be parsed"),
        ("[1]", "it is no map of settings"),
        ("# nothing", "it is no map of settings"),
        ('{"a": "b"}', "it has no name: add one to the file (`apply` also takes -n NAME)"),
        ('{"name": "a", "b": [1]}', "the value of 'b' is no text"),
        ('{"name": "a", "config": {"name": "b"}}', "its name is a, but its config names it b"),
        ('{"a": {}}', "'a' has no config"),
    ],
)
def test_files_that_declare_no_connector_are_refused(tmp_path: Path, text: str, says: str) -> None:
    """The error is one sentence that names the file."""
    path = write_file(tmp_path, "x", text)
    with pytest.raises(InputRefused) as refused:
        read_declared([path])
    assert refused.value.message.startswith(f"{path} has no connector: ")
    assert says in refused.value.message


def test_an_error_in_a_properties_file_names_file_and_line(tmp_path: Path) -> None:
    """The position has the form of editors and grep."""
    path = write_file(tmp_path, "x.properties", "name=a\nb=\\u12")
    with pytest.raises(InputRefused) as refused:
        read_declared([path])
    message = f"{path}:2: \\u must be followed by four hexadecimal digits"
    assert refused.value.message == message


def test_an_error_in_yaml_names_the_line_and_no_other_file(tmp_path: Path) -> None:
    """The error names line and file, not the parser's `<unicode string>`."""
    path = write_file(tmp_path, "x.yaml", "name: a\n  b: [")
    with pytest.raises(InputRefused) as refused:
        read_declared([path])
    assert "line 2, column 4" in refused.value.message
    assert "unicode string" not in refused.value.message


def test_one_connector_in_two_files_is_refused(tmp_path: Path) -> None:
    """The error names both files that declare the connector."""
    paths = [write_file(tmp_path, name, "name=orders") for name in ("a", "b")]
    with pytest.raises(InputRefused, match=r"orders is in .*/a and in .*/b: remove one"):
        read_declared(paths)


def test_one_name_for_several_connectors_is_refused(tmp_path: Path) -> None:
    """`-n` is refused with several connectors."""
    paths = [write_file(tmp_path, name, "x=y") for name in ("a", "b")]
    with pytest.raises(InputRefused, match="-n names one connector, and there are several"):
        read_declared(paths, "b")


@pytest.mark.parametrize("form", ["flat.json", "post.json", "expanded.json"])
def test_another_name_than_that_of_the_file_is_refused(tmp_path: Path, form: str) -> None:
    """`-n` never has another connector changed than the one that it names."""
    path = write_file(tmp_path, form, FORMS[form])
    with pytest.raises(InputRefused, match=r"name is other, but its|-n is other, but .* orders"):
        read_declared([path], "other")


@pytest.mark.parametrize("name", ["nix", "."])
def test_a_missing_file_and_an_empty_directory_are_refused(tmp_path: Path, name: str) -> None:
    """A missing file is refused, and a directory without connector files."""
    with pytest.raises(InputRefused, match=r"cannot be read \(No such file|no connector in "):
        read_declared([str(tmp_path / name)])

"""`plugins harvest`: its sources, its output, and its refusals."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from controlplane.core.releases.profiles import Profile
from controlplane.plugins import installed
from tests.cli.command_calls import CommandResult, call
from tests.cli.running_service import running
from tests.cli.test_terminal import at_a_terminal
from tests.client.client_calls import ClusterCalls
from tests.harvested_catalogues import class_path

NOBODY = "http://127.0.0.1:1"
NO_DEFINITIONS = "Kafka's classes could not print their definitions"


async def test_a_catalogue_is_written_once(tmp_path: Path) -> None:
    """An existing file is replaced only with an option."""
    file = tmp_path / "catalogue.json"
    calls = ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
    await asyncio.to_thread(calls.create)
    async with running(calls.where, "--quiet") as served:
        words = ("plugins", "harvest", "--worker", f"{served.url}/compat/3.9", "--file", file)
        result = await asyncio.to_thread(call, *words)
        assert (result.code, result.out) == (0, ""), result.err
        assert f"written to {file}" in result.err
        written = file.read_text("utf-8")
        again = await asyncio.to_thread(call, *words)
        assert (again.code, "replace it with --force" in again.err) == (2, True)
        forced = await asyncio.to_thread(call, *words, "--force")
        assert forced.code == 0, forced.err
        printed = await asyncio.to_thread(call, *words[:-2])
        assert json.loads(printed.out) == json.loads(written)
        assert file.read_text("utf-8") == written


@pytest.mark.parametrize("how", ["flag", "setting"])
async def test_a_harvested_catalogue_is_served(tmp_path: Path, how: str) -> None:
    """`--plugins` and `plugins.catalogue` serve the catalogue with its documentation."""
    file = tmp_path / "catalogue.json"
    file.write_text(
        '{"plugins": [{"class": "io.example.S", "type": "sink", "config": []}], '
        '"documentation": {"sink": {"topics": "Where it reads."}}}'
    )
    named = ("--plugins", file) if how == "flag" else ("--override", f"plugins.catalogue={file}")
    where = f"sqlite:///{tmp_path}/state.db"
    async with running(where, "--quiet", *map(str, named)) as served:
        words = ("describe", "plugin", "io.example.S", "--cluster", f"{served.url}/compat/4.0")
        result = await asyncio.to_thread(call, *words, "-o", "json")
    texts = {key["name"]: key["documentation"] for key in result.json}
    assert texts["topics"] == "Where it reads."
    assert len(texts["topics.regex"]) > len("Where it reads."), "the description of this project"


async def test_a_bar_shows_progress(tmp_path: Path) -> None:
    """On a terminal, standard error shows a progress bar and standard output the document."""
    calls = ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
    await asyncio.to_thread(calls.create)
    async with running(calls.where, "--quiet") as served:
        words = ("plugins", "harvest", "--worker", f"{served.url}/compat/3.9")
        output = await asyncio.to_thread(at_a_terminal, "stderr", *words)
    assert f"asking {served.url}" in output.terminal
    assert json.loads(output.elsewhere)["harvested"]


@pytest.mark.parametrize("words", [(), ("--worker", NOBODY, "--jars", "libs")])
def test_one_source_is_named(words: tuple[str, ...]) -> None:
    """The command needs exactly one source."""
    result = call("plugins", "harvest", *words)
    assert result.code == 2
    assert "name one source: --worker URL or --jars FOLDER" in result.err


@pytest.mark.parametrize("where", ["localhost:8083", "sqlite:///state.db", "kafka://broker:9092"])
def test_a_worker_is_named_by_its_url(where: str) -> None:
    """`--worker` refuses an address without a scheme, such as a log's path."""
    result = call("plugins", "harvest", "--worker", where)
    assert (result.code, "is no URL of a worker" in result.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [("plugins", "harvest", "-c", NOBODY), ("--cluster", NOBODY, "plugins", "harvest")],
)
def test_a_cluster_is_no_worker(words: tuple[str, ...]) -> None:
    """`-c` is refused on both sides of the verb; the sentence names `--worker`."""
    result = call(*words)
    message = "harvest takes no --cluster: name the worker by --worker URL"
    assert (result.code, message in result.err) == (2, True), result.err


def test_a_url_without_a_host_is_refused() -> None:
    """The error for a URL without a host names the option."""
    result = call("plugins", "harvest", "--worker", "http://")
    assert (result.code, "is no URL (it names no host): check --worker" in result.err) == (2, True)


def test_an_unreachable_worker_is_reported_without_the_password() -> None:
    """Exit code 4, as of all client commands; the password is not repeated."""
    result = call("plugins", "harvest", "--worker", "http://ann:secret@127.0.0.1:1")
    assert result.code == 4
    assert "http://127.0.0.1:1 gave no answer to GET /" in result.err
    assert "secret" not in result.err


def test_plugins_are_listed_as_before(tmp_path: Path) -> None:
    """`plugins` without a subcommand lists the plugins."""
    calls = ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
    calls.create()
    assert "FileStreamSourceConnector" in calls.output("plugins")
    assert calls.output("plugins", "list", "--type", "predicate") == calls.output(
        "plugins", "--type", "predicate"
    )


# --- jars ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (None, "is no folder"),
        ((), "holds no connect-runtime-*.jar"),
        (("other-1.0.jar", "connect-api-3.9.1.jar"), "holds no connect-runtime-*.jar"),
        (("connect-runtime-3.9.1.jar", "connect-runtime-4.0.0.jar"), "holds several releases"),
    ],
)
def test_a_folder_without_kafkas_jars_is_refused(
    tmp_path: Path, names: tuple[str, ...] | None, sentence: str
) -> None:
    """The sentence describes the expected folder."""
    folder = tmp_path / "libs"
    if names is not None:
        folder.mkdir()
    for name in names or ():
        (folder / name).touch()
    result = call("plugins", "harvest", "--jars", folder)
    assert (result.code, sentence in result.err) == (2, True), result.err


def test_several_releases_are_each_named_once(tmp_path: Path) -> None:
    """The error names each release once, although a jar has copies."""
    for number, release in enumerate(("3.9.1", "3.9.1", "4.0.0")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / f"connect-runtime-{release}.jar").touch()
    result = call("plugins", "harvest", "--jars", tmp_path)
    assert result.code == 2
    assert "(connect-runtime-3.9.1.jar, connect-runtime-4.0.0.jar)" in result.err


def test_a_machine_without_java_gets_instructions(tmp_path: Path) -> None:
    """The sentence says what to install."""
    (tmp_path / "connect-runtime-3.9.1.jar").touch()
    result = call(
        "plugins", "harvest", "--jars", tmp_path, environment={"PATH": "", "JAVA_HOME": None}
    )
    assert result.code == 2
    assert "there is no Java on this machine: install a JDK" in result.err


def harvested_with_java(folder: Path, script: str) -> CommandResult:
    """Harvest the jars of a folder with a script in place of Java."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(script, "ascii")
    java.chmod(0o755)
    return call("plugins", "harvest", "--jars", folder, environment={"JAVA_HOME": str(folder)})


def test_a_java_that_is_no_jdk_is_refused(tmp_path: Path) -> None:
    """A runtime without a compiler cannot run a source file; the sentence says so."""
    (tmp_path / "connect-runtime-3.9.1.jar").touch()
    result = harvested_with_java(
        tmp_path, "#!/bin/sh\necho Module jdk.compiler not found >&2\nexit 1\n"
    )
    assert (result.code, "belongs to no JDK of release 11 or newer" in result.err) == (2, True)


def test_a_jar_may_have_any_name(tmp_path: Path) -> None:
    """The name of a jar need not be UTF-8: Java gets its bytes."""
    for name in (b"connect-runtime-3.9.1.jar", b"caf\xe9.jar"):
        (tmp_path / os.fsdecode(name)).touch()
    result = harvested_with_java(
        tmp_path, '#!/bin/sh\nfor word; do cat "${word#@}"; done >"$0.arguments"\n'
    )
    assert (result.code, NO_DEFINITIONS in result.err) == (2, True)
    assert b"/caf\xe9.jar" in (tmp_path / "bin" / "java.arguments").read_bytes()


def test_a_java_that_is_too_old_for_the_jars_is_refused(tmp_path: Path) -> None:
    """The compiler rejects the jars; the sentence names the needed JDK."""
    (tmp_path / "connect-runtime-4.0.0.jar").touch()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    complaint = "class file has wrong version 61.0, should be 55.0"
    java.write_text(f"#!/bin/sh\necho '{complaint}' >&2\nexit 1\n", "ascii")
    java.chmod(0o755)
    result = call(
        "plugins", "harvest", "--jars", tmp_path, environment={"JAVA_HOME": str(tmp_path)}
    )
    assert (result.code, "is too old for these jars: install a JDK" in result.err) == (2, True)


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_java_that_prints_without_end_is_stopped(tmp_path: Path, stream: str) -> None:
    """The program is stopped before it fills the disk, or the memory of this process."""
    (tmp_path / "connect-runtime-4.0.0.jar").touch()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\nexec yes >&{stream}\n", "ascii")
    java.chmod(0o755)
    result = call(
        "plugins", "harvest", "--jars", tmp_path, environment={"JAVA_HOME": str(tmp_path)}
    )
    assert (result.code, "print without end: check the jars" in result.err) == (2, True)


@pytest.mark.java
def test_jars_without_classes_are_refused(tmp_path: Path) -> None:
    """Java finds no classes in them."""
    (tmp_path / "connect-runtime-3.9.1.jar").touch()
    result = call("plugins", "harvest", "--jars", tmp_path)
    assert (result.code, NO_DEFINITIONS in result.err) == (2, True), result.err


@pytest.mark.java
def test_missing_jars_of_kafka_are_named(tmp_path: Path) -> None:
    """The sentence names the missing jars, and no file of this program."""
    for jar in class_path("3.9.1").split(os.pathsep):
        if "connect-runtime" in jar:
            (tmp_path / Path(jar).name).symlink_to(jar)
    result = call("plugins", "harvest", "--jars", tmp_path)
    assert (result.code, "Definitions.java" in result.err) == (2, False)
    assert "the jars lack package org.apache.kafka." in result.err
    assert "name the folder with all jars of Kafka (libs/)" in result.err


@pytest.mark.java
def test_jars_of_a_release_give_its_documentation(tmp_path: Path) -> None:
    """A release's folder with subfolders gives Kafka's documentation."""
    for number, jar in enumerate(class_path("3.9.1").split(os.pathsep)):
        folder = tmp_path / "libs" / f"some {number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / Path(jar).name).symlink_to(jar)
    file = tmp_path / "catalogue.json"
    result = call("plugins", "harvest", "--jars", tmp_path / "libs", "--file", file)
    assert result.code == 0, result.err
    written = json.loads(file.read_bytes())
    assert written["harvested"] == {"release": "3.9.1"}
    assert {"class": "org.apache.kafka.connect.json.JsonConverter"} in written["plugins"]
    scopes = written["documentation"]
    assert {"connector", "source", "sink", "transformation", "producer", "mirror"} <= scopes.keys()
    ours = installed().at(Profile.of("3.9.1")).definition("producer")
    assert {key.name for key in ours} == scopes["producer"].keys()
    differing = [key for key in ours if key.documentation != scopes["producer"][key.name]]
    assert len(differing) > len(ours) / 2

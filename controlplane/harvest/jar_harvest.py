"""Harvest from jars: a JVM prints the definitions of Kafka's own classes.

`Definitions.java` lies beside this file. A JDK compiles and runs it in one step.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import IO, Any

import msgspec

from controlplane.core.plugins import KafkaPlugins
from controlplane.core.releases.profiles import Profile, resolve
from controlplane.core.text.safe_text import short
from controlplane.harvest.catalogue_file import all_known
from controlplane.harvest.harvest_result import (
    CLIENTS,
    Harvest,
    HarvestedPlugin,
    HarvestError,
    JavaKey,
    NoJava,
)

JAVA_S = 300
"""Longest time in seconds for the JVM."""

OUTPUT_BYTES = 64 << 20
"""Maximum size in bytes of each output of the JVM. A JVM that prints more is killed."""

LOOK_S = 0.1
"""Seconds between checks of the size."""

JARS_MOST = 20_000

CONNECTS_SHOWN = 4

_RUNTIME = re.compile(r"connect-runtime-\d[^/]*(?<!-sources)(?<!-javadoc)(?<!-test)\.jar")
"""Name of the jar that holds Connect itself."""

_PROGRAM = "Definitions.java"
_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""JVM options: in the seconds of a harvest, the optimising compiler costs more than it saves."""

_KINDS = {
    "transformations": "transformation",
    "predicates": "predicate",
    "converters": "converter",
    "headerConverters": "header_converter",
}
"""Kinds of plugins by the getter of Kafka's `Plugins`; those of other getters are connectors."""


class _JarPlugin(msgspec.Struct, frozen=True, rename={"class_name": "class"}):
    class_name: str
    among: str
    type: str
    version: str | None = None
    config: tuple[JavaKey, ...] | None = None


class _DefinitionsOutput(msgspec.Struct, frozen=True):
    """The one line of JSON that `Definitions.java` prints."""

    release: str
    connector: tuple[JavaKey, ...]
    source: tuple[JavaKey, ...]
    sink: tuple[JavaKey, ...]
    producer: tuple[JavaKey, ...]
    consumer: tuple[JavaKey, ...]
    admin: tuple[JavaKey, ...]
    plugins: tuple[_JarPlugin, ...]
    transformed: tuple[JavaKey, ...] | None = None


def jars_in(folder: Path) -> list[Path]:
    """The jars in a folder and below it; those in the folder of Kafka Connect come first.

    Raises:
        HarvestError: the folder is missing, holds more than `JARS_MOST` jars, or does not hold
            exactly one release of Connect.
    """
    if not folder.is_dir():
        raise HarvestError(f"{folder} is no folder: name the one that holds Kafka's jars (libs/)")
    jars = sorted(islice(filter(Path.is_file, folder.rglob("*.jar")), JARS_MOST + 1))
    if len(jars) > JARS_MOST:
        raise HarvestError(
            f"{folder} holds more than {JARS_MOST:,} jars: name the folder of Kafka's jars (libs/)"
        )
    connects = [path for path in jars if _RUNTIME.match(path.name)]
    if not connects:
        raise HarvestError(
            f"{folder} holds no connect-runtime-*.jar: name the folder of Kafka's jars (libs/ of a "
            "download). The jars of other plugins may lie in it or beneath it"
        )
    distinct = sorted({path.name for path in connects})
    if len(distinct) > 1:
        names = ", ".join(distinct[:CONNECTS_SHOWN])
        raise HarvestError(f"{folder} holds several releases ({names}): name a folder of one")
    # A plugin's folder may have jars with Kafka's classes: Kafka's own must come before them.
    return sorted(jars, key=lambda path: (path.parent != connects[0].parent, path))


def from_jars(jars: Sequence[Path], own: KafkaPlugins, release: str | None = None) -> Harvest:
    """Harvest the classes in these jars.

    `release`: the Kafka release that the jars are based on. None: the version that the jars report.

    Raises:
        NoJava: there is no JDK, or one that is too old.
        HarvestError: Kafka's classes could not print their definitions.
        UnknownRelease: the release is unknown.
    """
    return from_line(definitions(os.pathsep.join(map(str, jars))), own, release)


def from_line(line: bytes, own: KafkaPlugins, release: str | None = None) -> Harvest:
    """The harvest of a line that `Definitions.java` printed.

    Raises:
        HarvestError: it is no such line.
        UnknownRelease: its release is unknown.
    """
    try:
        output = msgspec.json.decode(line, type=_DefinitionsOutput)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HarvestError(
            f"the definitions in these jars have an unknown form ({error}): use the jars of one "
            "release of Kafka"
        ) from None
    profile = resolve(release or output.release).profile
    return Harvest(output.release, _definitions(output, own, profile), _plugins(output))


def definitions(class_path: str) -> bytes:
    """Output of `Definitions.java` about the classes of a class path: one line of JSON.

    Raises:
        NoJava: there is no JDK, or one that is too old.
        HarvestError: it fails.
    """
    java = _java()
    program = resources.files("controlplane.harvest") / _PROGRAM
    with (
        resources.as_file(program) as source,
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "output").open("w+b") as output_file,
        (Path(folder) / "errors").open("w+b") as error_file,
    ):
        arguments = Path(folder) / "arguments"  # a command line may be too short for all jars
        # A name that is not UTF-8 is written with its own bytes.
        arguments.write_text(f'-cp "{_escaped(class_path)}"\n', "utf-8", "surrogateescape")
        command = [java, *_JVM, f"@{arguments}", str(source)]
        error_output = _run(command, output_file, error_file)
        output_file.seek(0)
        lines = output_file.read().splitlines()
    if not lines or not lines[-1].startswith(b"{"):
        raise HarvestError(_error_summary(error_output))
    return lines[-1]


def _run(command: Sequence[str], output_file: IO[bytes], error_file: IO[bytes]) -> str:
    """Run the program and return its standard error."""
    try:
        process = subprocess.Popen(command, stdout=output_file, stderr=error_file)  # noqa: S603 - the user's Java, with files of the user's
    except OSError as error:
        raise NoJava(f"{command[0]} cannot be run ({error.strerror}): {_INSTALL}") from None
    with process:
        try:
            _await_end(process, output_file, error_file)
        except BaseException:
            process.kill()
            raise
    error_file.seek(0)
    error_output = error_file.read().decode("utf-8", "replace")
    if process.returncode and any(words in error_output for words in _NO_COMPILER):
        raise NoJava(f"{command[0]} belongs to no JDK of release 11 or newer: {_INSTALL}")
    if process.returncode and any(words in error_output for words in _TOO_OLD):
        raise NoJava(f"{command[0]} is too old for these jars: {_INSTALL}")
    return error_output


def _await_end(process: "subprocess.Popen[bytes]", *files: IO[bytes]) -> None:
    """Wait for the end of the JVM.

    Raises:
        HarvestError: it takes too long, or prints too much.
    """
    deadline_s = monotonic() + JAVA_S
    is_running = True
    while is_running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_S)
            is_running = False
        if any(os.fstat(file.fileno()).st_size > OUTPUT_BYTES for file in files):
            raise HarvestError("the classes in these jars print without end: check the jars")
        if is_running and monotonic() > deadline_s:
            raise HarvestError(
                f"Java did not end within {JAVA_S} s, perhaps because of a plugin: name a folder "
                "without the jars of plugins"
            )


_INSTALL = "install a JDK (11 or newer; Kafka 4 needs 17), or name it in JAVA_HOME"
_NO_COMPILER = ("jdk.compiler", "Could not find or load main class", "Unrecognized option")
"""Words of a Java that cannot run a source file."""
_MISSING = re.compile(r"error: (package [\w.]+) does not exist")
"""Words of a JDK about a package that is in none of the jars."""
_TOO_OLD = ("class file has wrong version", "UnsupportedClassVersionError")
"""Words of a JDK about classes that need a newer one."""


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")
    if java is None:
        raise NoJava(f"there is no Java on this machine: {_INSTALL}")
    return java


def _escaped(text: str) -> str:
    """A text between quotes in a file of arguments for Java."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _error_summary(error_output: str) -> str:
    """A sentence about the first error, without Kafka's log lines."""
    if missing := _MISSING.search(error_output):
        return f"the jars lack {missing[1]}: name the folder with all jars of Kafka (libs/)"
    lines = [line for line in error_output.splitlines() if "rror" in line or "xception" in line]
    why = short((lines or ["Java gives no reason"])[0])
    return f"Kafka's classes could not print their definitions: {why}"


def _definitions(
    output: _DefinitionsOutput, own: KafkaPlugins, profile: Profile
) -> Mapping[str, Any]:
    connector = {key.name for key in output.connector}
    by_scope = {name: _plain(getattr(output, name)) for name in ("connector", *CLIENTS)}
    for kind in ("source", "sink"):
        by_scope[kind] = _plain(key for key in getattr(output, kind) if key.name not in connector)
    # Keys of `transforms.a.…`: those that Connect defines for every transformation are kept.
    implied = {key.name for key in all_known(own, profile).definition("transformation")}
    transformed = (
        msgspec.structs.replace(key, name=key.name.rpartition(".")[2])
        for key in output.transformed or ()
    )
    by_scope["transformation"] = _plain(key for key in transformed if key.name in implied)
    return by_scope


def _plugins(output: _DefinitionsOutput) -> tuple[HarvestedPlugin, ...]:
    return tuple(
        HarvestedPlugin(
            plugin.class_name,
            _KINDS.get(plugin.among, plugin.type),
            plugin.version,
            None if plugin.config is None else _plain(plugin.config),
        )
        for plugin in output.plugins
    )


def _plain(keys: Any) -> Any:
    return tuple(key.config_key() for key in keys)

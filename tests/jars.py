"""Class paths of released jars, which Maven resolves: `connect-runtime:3.9.1` becomes a class path.

The project downloads and commits no jar itself. Maven keeps the jars in its own repository. A class
path is remembered under `.cache/jars/`, so that a second call starts no JVM.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "jars"

RESOLVE_TIMEOUT_S = 900
"""Limit for Maven: an empty repository fetches some hundred jars for a worker."""

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options for a JVM that lives for seconds: the second compiler would cost more than it saves."""

SILENT = ("org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-nop:1.7.36")
"""API of slf4j and a binding that discards Kafka's log: the first jars of a silent class path."""

OTHER_BINDINGS = ("slf4j-log4j12-", "slf4j-reload4j-", "log4j-slf4j", "logback-classic-")
"""Jars that would also claim to be slf4j's binding. Log4j itself stays: Kafka calls it directly."""

GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"

# A dependency of Kafka since 1.0, javax.ws.rs-api, takes its packaging from this property.
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>{}</artifactId><version>1</version>
  <properties><packaging.type>jar</packaging.type></properties>
  <dependencies>{}</dependencies>
</project>
"""

REACTOR = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>all</artifactId><version>1</version>
  <packaging>pom</packaging>
  <modules>{}</modules>
</project>
"""

Artifacts = tuple[str, ...]
"""Maven artifacts of one class path, each `group:name:version` or with a classifier behind."""


class JarsUnavailable(RuntimeError):
    """Java, Maven or the registry is missing; the message names which, and the remedy."""


@cache
def java() -> Path | None:
    """The `java` of `JAVA_HOME`, else of the path; None without Java."""
    return _tool("java")


@cache
def javac() -> Path | None:
    """The Java compiler beside `java()`; None for a runtime without compiler."""
    return _tool("javac")


@cache
def keytool() -> Path | None:
    """Java's program for key stores, which comes with any `java()`."""
    return _tool("keytool")


def classpath(*artifacts: str, silent: bool = True, soon: Iterable[Artifacts] = ()) -> str:
    """The class path of Maven artifacts, with all they depend on.

    Each is `group:name:version`, or `group:name:version:classifier`.

    `silent` adds a binding of slf4j that prints nothing; without it the class path has no binding.
    Several processes may call this at once. `soon` names class paths that tests ask for
    later. One run of Maven resolves them all, because its start costs more than a class path.

    Raises:
        JarsUnavailable: there is no Java or Maven, or Maven could not resolve an artifact.
    """
    first = SILENT if silent else SILENT[:1]
    remembered = _file_of((*first, *artifacts))
    return _remembered(remembered) or _resolve_once(
        (*first, *artifacts), [(*first, *later) for later in soon]
    )


def jar_alone(artifact: str) -> Path:
    """Jar of one artifact, `group:name:version[:jar:classifier]`, without its dependencies.

    Raises:
        JarsUnavailable: there is no Maven, or no registry.
    """
    _, name, version, *kind = artifact.split(":")
    jar = CACHE / f"{'-'.join([name, version, *kind[1:]])}.jar"
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "lock"):
        said = ""
        for mode in (("--offline",), ()):
            if not jar.exists():
                copy = (COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={CACHE}")
                said = _maven(_maven_program(), *mode, *copy)
    if not jar.exists():
        raise JarsUnavailable(f"Maven could not fetch {artifact}: {_complaint(said)}")
    return jar


def compiled(sources: Path, against: str, cache: Path) -> Path:
    """The folder of compiled Java sources, below `cache`; made anew when a source has changed.

    Raises:
        JarsUnavailable: there is no Java compiler.
    """
    files = sorted(sources.rglob("*.java"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = cache / digest
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / "lock"):
            if not folder.exists():
                _compile(files, folder, against)
    return folder


def _compile(files: list[Path], folder: Path, against: str) -> None:
    compiler = javac()
    if compiler is None:
        raise JarsUnavailable("there is no Java compiler: apt-get install openjdk-17-jdk-headless")
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    quick = [f"-J{option}" for option in SHORT_LIVED]
    options = [*quick, "-nowarn", "-d", str(unfinished), "-cp", against]
    command = [str(compiler), *options, *map(str, files)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    unfinished.rename(folder)


def _tool(name: str) -> Path | None:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(name, path=f"{home}/bin") if home else None
    program = program or shutil.which(name)
    return Path(program) if program else None


def _remembered(file: Path) -> str | None:
    """The class path in `file`, if all of its jars are still there."""
    if not file.exists():
        return None
    path = file.read_text(encoding="utf-8")
    return path if all(Path(jar).exists() for jar in path.split(os.pathsep)) else None


def _file_of(artifacts: Artifacts) -> Path:
    """File that remembers the class path of these artifacts."""
    return CACHE / f"{hashlib.sha256(' '.join(artifacts).encode()).hexdigest()[:16]}.path"


def _resolve_once(artifacts: Artifacts, soon: Iterable[Artifacts]) -> str:
    """Resolve under a lock: two writers can damage Maven's own repository."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / "lock"):
        path, complaint = _remembered(_file_of(artifacts)), ""
        if path is None:
            unknown = [later for later in soon if _remembered(_file_of(later)) is None]
            complaint = _resolve(list(dict.fromkeys([artifacts, *unknown])))
            path = _remembered(_file_of(artifacts))
    if path is None:
        raise JarsUnavailable(f"Maven could not resolve {', '.join(artifacts)}: {complaint}")
    return path


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, which the first caller makes."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(class_paths: list[Artifacts]) -> str:
    """Resolve class paths, first in Maven's local repository; return Maven's error, if any.

    Maven asks the registry only if the local repository lacks the first of `class_paths`.
    """
    maven = _maven_program()
    first, said = class_paths[0], ""
    for mode in (("--offline",), ()):
        said = _maven(maven, *mode, *_reactor(class_paths))
        _remember(class_paths)
        class_paths = [
            artifacts for artifacts in class_paths if _remembered(_file_of(artifacts)) is None
        ]
        if first not in class_paths:
            break
    return _complaint(said)


def _maven_program() -> str:
    """Path of Maven, which needs Java."""
    maven = shutil.which("mvn")
    if java() is None or maven is None:
        missing = "Java" if java() is None else "Maven"
        raise JarsUnavailable(
            f"{missing} is missing: apt-get install openjdk-17-jdk-headless maven"
        )
    return maven


def _folder_of(artifacts: Artifacts) -> Path:
    """Folder of the Maven module with these artifacts."""
    return CACHE / "modules" / _file_of(artifacts).stem


def _reactor(class_paths: list[Artifacts]) -> list[str]:
    """Write one Maven module per class path; return Maven's arguments that resolve them all."""
    modules = CACHE / "modules"
    shutil.rmtree(modules, ignore_errors=True)
    for artifacts in class_paths:
        folder = _folder_of(artifacts)
        folder.mkdir(parents=True)
        pom = POM.format(folder.name, "".join(map(_dependency, artifacts)))
        (folder / "pom.xml").write_text(pom, encoding="utf-8")
    names = "".join(f"<module>{_folder_of(artifacts).name}</module>" for artifacts in class_paths)
    (modules / "pom.xml").write_text(REACTOR.format(names), encoding="utf-8")
    # A relative file lies in the folder of each module.
    return ["--fail-at-end", "-f", str(modules / "pom.xml"), GOAL, "-Dmdep.outputFile=found.path"]


def _remember(class_paths: list[Artifacts]) -> None:
    """Store the class paths that Maven has just written."""
    for artifacts in class_paths:
        written = _folder_of(artifacts) / "found.path"
        if written.exists():
            fresh = _file_of(artifacts).with_suffix(".new")
            path = _bound_once(written.read_text(encoding="utf-8").strip())
            fresh.write_text(path, encoding="utf-8")
            fresh.replace(_file_of(artifacts))


def _dependency(artifact: str) -> str:
    group, name, version, *classifiers = map(escape, artifact.split(":"))
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>"
        + "".join(f"<classifier>{classifier}</classifier>" for classifier in classifiers)
        + "</dependency>"
    )


def _maven(maven: str, *arguments: str) -> str:
    command = [maven, "--batch-mode", "--quiet", *arguments]
    options = f"{os.environ.get('MAVEN_OPTS', '')} {' '.join(SHORT_LIVED)}"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_S,
            check=False,
            env={**os.environ, "MAVEN_OPTS": options},
        )
    except subprocess.TimeoutExpired as late:
        raise JarsUnavailable(f"Maven did not answer within {RESOLVE_TIMEOUT_S} s") from late
    return done.stdout


def _bound_once(path: str) -> str:
    """The class path without the slf4j bindings that Kafka brings."""
    jars = path.split(os.pathsep)
    return os.pathsep.join(jar for jar in jars if not Path(jar).name.startswith(OTHER_BINDINGS))


def _complaint(said: str) -> str:
    """Maven's first error line: the rest is advice about Maven."""
    errors = (line.partition("[ERROR] ")[2] for line in said.splitlines())
    return next(filter(None, errors), "it did not say why")

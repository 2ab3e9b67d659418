"""Container and systemd unit: paths, flags, settings and users are valid."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from configparser import ConfigParser
from importlib.metadata import requires
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement

from controlplane.cli.main import main

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
UNIT = ROOT / "deploy" / "controlplane.service"
SYSTEMD = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")


def instructions() -> list[tuple[str, str]]:
    """Instructions of the Containerfile with their words."""
    lines = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", "", lines).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined if line]


def last(instruction: str) -> str:
    """Words of the last instruction of this kind."""
    return [words for name, words in instructions() if name == instruction][-1]


class Unit(ConfigParser):
    """A unit's settings, each with its last value, in the case in which they are written."""

    optionxform = staticmethod(str)  # type: ignore[assignment]


def unit() -> Unit:
    parsed = Unit(strict=False, interpolation=None, delimiters=("=",))
    parsed.read(UNIT)
    return parsed


def accepted(words: list[str]) -> bool:
    """True if our command line parses these arguments."""
    return CliRunner().invoke(main, [*words, "--help"]).exit_code == 0 and not _unknown(words)


def _unknown(words: list[str]) -> list[str]:
    command = main.get_command(None, words[0])  # type: ignore[arg-type]
    assert command is not None
    options = {spelling for param in command.params for spelling in param.opts}
    return [word for word in words if word.startswith("--") and word not in options]


def test_the_image_has_two_stages_and_an_unprivileged_user() -> None:
    """The compiler's stage is left out; the service's user may write only its log."""
    assert [words for name, words in instructions() if name == "FROM"] == [
        "python:3.11-slim AS build",
        "python:3.11-slim",
    ]
    uid, gid = last("USER").split(":")
    assert int(uid) > 0 < int(gid)
    assert f"--uid {uid} " in last("RUN")
    assert f"--mode 0700 {last('VOLUME')}" in last("RUN")


def test_the_image_copies_existing_files() -> None:
    """Each copied path of the repository exists."""
    copied = [words.split() for name, words in instructions() if name == "COPY"]
    sources = [path for *paths, _ in copied for path in paths if not path.startswith(("-", "/opt"))]
    assert sources
    assert [path for path in sources if not (ROOT / path).exists()] == []


def test_the_build_context_has_only_copied_files() -> None:
    """The builder gets the copied files, and no environment, log or git history."""
    lines = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = [words.split() for name, words in instructions() if name == "COPY"]
    assert sent == {path for words in copied if "--from" not in words[0] for path in words[:-1]}
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_the_image_installs_by_hash() -> None:
    """Each `pip install` of the image checks hashes, except that of our own wheel."""
    installs = [
        command.strip()
        for name, words in instructions()
        if name == "RUN"
        for command in words.split("&&")
        if " install " in command and "pip" in command
    ]
    assert len(installs) == 3
    assert all("--no-deps" in install for install in installs)
    assert all(
        "--require-hashes" in install or install.endswith(" dist/*.whl") for install in installs
    )


def test_the_image_serves_its_volume() -> None:
    """The command accepts the image's flags; the health check uses the exposed port."""
    assert json.loads(last("ENTRYPOINT")) == ["controlplane"]
    words = json.loads(last("CMD"))
    assert accepted(words)
    assert f"sqlite:///{last('VOLUME')}/state.db" in words
    port = words[words.index("--port") + 1]
    assert last("EXPOSE") == port
    check = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    assert check[:2] == ["python", "-c"]
    compile(check[2], "HEALTHCHECK", "exec")
    assert f":{port}/health" in check[2]


def installed_for(name: str, packages: set[str]) -> set[str]:
    """Add the packages that a package needs here, recursively; return all names."""
    for line in requires(name) or []:
        need = Requirement(line)
        if need.name not in packages and (not need.marker or need.marker.evaluate({"extra": ""})):
            packages.add(need.name)
            installed_for(need.name, packages)
    return packages


def locked(*names: str) -> subprocess.CompletedProcess[str]:
    """Run `tools/locked` for these packages."""
    command = [sys.executable, str(ROOT / "tools" / "locked"), *names]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_services_requirements_are_locked() -> None:
    """Each requirement is locked with its hashes; packages for development are not listed."""
    parts = re.split(r"^(?=[a-z])", locked("controlplane").stdout, flags=re.MULTILINE)[1:]
    names = {part.partition("==")[0] for part in parts}
    assert {_normal(name) for name in installed_for("controlplane", set())} <= names
    assert names.isdisjoint({"pytest", "pyspark", "hatchling", "mypy"})
    assert all("--hash=sha256:" in part for part in parts)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ((), "give at least one package"),
        (("nothing-of-ours",), "not in requirements.lock: nothing-of-ours"),
    ],
)
def test_unlocked_names_are_refused(names: tuple[str, ...], reason: str) -> None:
    """`tools/locked` fails for no names and for a package outside of the lock file."""
    result = locked(*names)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.endswith(f"{reason}\n")


def test_the_unit_serves_its_state_directory() -> None:
    """The command accepts the unit's flags; the log lies in a writable directory."""
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "controlplane"
    assert accepted(words)
    assert f"sqlite:///%S/{service['StateDirectory']}/state.db" in words
    assert service["ProtectSystem"] == "strict"
    assert service["User"] != "root"


def test_named_variables_are_settings() -> None:
    """Each variable that the deployment files name is a setting."""
    text = CONTAINERFILE.read_text() + UNIT.read_text()
    named = set(re.findall(r"CONTROLPLANE_[A-Z_]+", text))
    variables = dict.fromkeys(named, "/nowhere")
    result = CliRunner().invoke(
        main, ["config", "--all"], env=variables | {"CONTROLPLANE_LISTENERS": "http://[::1]:1"}
    )
    assert result.exit_code == 0, result.output
    assert named
    assert [name for name in named if name not in result.stdout] == []


@SYSTEMD
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """No setting is misspelt, and the sandbox leaves the service few rights."""
    bin_folder = Path(sys.executable).parent
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/controlplane/bin", str(bin_folder)))
    for verb in (["verify", "--man=no"], ["security", "--offline=true", "--threshold=20"]):
        done = subprocess.run(
            ["systemd-analyze", *verb, copy], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Unknown" not in done.stderr

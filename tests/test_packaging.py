"""What users install: one wheel with both packages, typed, without Spark."""

import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.tidy.source import ROOT

DEPENDENCIES = {
    *(
        "aiokafka",
        "click",
        "cramjam",
        "cryptography",
        "httpx",
        "msgspec",
        "prometheus-client",
        "pyyaml",
        "rich",
        "starlette",
        "structlog",
        "uvicorn",
    )
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel, as it is built from this tree."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", str(folder)], cwd=ROOT, check=True)
    (path,) = folder.glob("*.whl")
    return ZipFile(path)


def part(wheel: ZipFile, end: str) -> str:
    """The one file of the wheel whose name ends so, as text."""
    (name,) = [name for name in wheel.namelist() if name.endswith(end)]
    return wheel.read(name).decode()


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    """What the wheel says of itself."""
    return Parser().parsestr(part(wheel, ".dist-info/METADATA"))


def test_the_wheel_holds_both_packages(wheel: ZipFile) -> None:
    """Every module of both packages is in it, and nothing beside them."""
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    packages = [ROOT / "controlplane", ROOT / "replay"]
    modules = {path for package in packages for path in package.rglob("*.py")}
    assert {path.relative_to(ROOT).as_posix() for path in modules} <= held
    assert {name.split("/")[0] for name in held} == {"controlplane", "replay"}


def test_the_wheel_is_typed_and_licensed(wheel: ZipFile) -> None:
    """Type checkers read its annotations, and its licence comes along."""
    assert "controlplane/py.typed" in wheel.namelist()
    assert "Apache License" in part(wheel, "licenses/LICENSE")


def required(metadata: Message) -> set[str]:
    """Names of the packages that always come along."""
    requirements = map(Requirement, metadata.get_all("Requires-Dist", []))
    return {found.name for found in requirements if not found.marker}


def test_the_service_needs_no_spark(metadata: Message) -> None:
    """Spark comes only with the extra of that name; what develops this project never comes."""
    lines = metadata.get_all("Requires-Dist", [])
    assert required(metadata) == DEPENDENCIES
    assert [line.partition("; ")[2] for line in lines if "pyspark" in line] == ["extra == 'spark'"]


def test_the_lock_pins_every_package_by_hash() -> None:
    """Each package is of one version with at least one hash, and no host of a registry is named."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = re.split(r"^(?=\S+==)", lock, flags=re.MULTILINE)[1:]
    assert len(packages) > len(DEPENDENCIES)
    assert not [text for text in packages if "--hash=sha256:" not in text]
    assert "://" not in lock


def test_the_lock_holds_what_is_declared(metadata: Message) -> None:
    """No dependency was declared without `make lock`."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not [name for name in required(metadata) if f"\n{name}==" not in lock]


@pytest.mark.parametrize("script", ["controlplane", "replay"])
def test_console_scripts_exist(wheel: ZipFile, script: str) -> None:
    """Both commands are declared, and installed where the tests run."""
    assert f"{script} = {script}.__main__:main" in part(wheel, ".dist-info/entry_points.txt")
    assert callable(import_module(f"{script}.__main__").main)
    (installed,) = entry_points(group="console_scripts", name=script)
    assert installed.value == f"{script}.__main__:main"
    assert Path(sys.executable).with_name(script).exists()

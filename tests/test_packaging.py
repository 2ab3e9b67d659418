"""Distributions: a wheel with both packages, and a source distribution with working tests."""

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.layers import imports
from tests.tidy.source import PACKAGES, ROOT, parse, tracked

pytestmark = pytest.mark.slow

COME_ALONG = {"h11": "uvicorn", "py4j": "pyspark"}
"""Imported packages without an own requirement, each with the dependency that requires it."""

HOSTS = {"pytest"}
"""Programs that import a plugin of ours, and so are installed whenever it runs."""


SELF_TESTS = ("tests/test_tidy.py", "tests/test_packaging.py", "tests/deploy", "tests/docs")
"""Tests about files: they fail first if files are missing."""


def built(target: str, source: Path, folder: Path) -> Path:
    """Distribution of a kind (wheel, sdist), built from a source tree into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run([*command, "--directory", str(folder)], cwd=source, check=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel, built from this tree."""
    return ZipFile(built("wheel", ROOT, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from this tree and unpacked."""
    with tarfile.open(built("sdist", ROOT, tmp_path_factory.mktemp("sdist"))) as packed:
        packed.extractall(folder := tmp_path_factory.mktemp("unpacked"), filter="data")
    (root,) = folder.iterdir()
    return root


def part(wheel: ZipFile, end: str) -> str:
    """Text of the one file of the wheel whose name has this ending."""
    (name,) = [name for name in wheel.namelist() if name.endswith(end)]
    return wheel.read(name).decode()


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    """Return the metadata of the wheel."""
    return Parser().parsestr(part(wheel, ".dist-info/METADATA"))


def test_the_wheel_holds_both_packages(wheel: ZipFile) -> None:
    """The wheel has every module and data file of both packages, and nothing else."""
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    packages = [ROOT / "controlplane", ROOT / "replay"]
    kinds = ("*.css", "*.java", "*.json", "*.properties", "*.py")
    modules = {path for package in packages for kind in kinds for path in package.rglob(kind)}
    assert {path.relative_to(ROOT).as_posix() for path in modules} <= held
    assert {name.split("/")[0] for name in held} == {"controlplane", "replay"}


def test_the_wheel_is_typed_and_licensed(wheel: ZipFile) -> None:
    """The wheel has type annotations and its licence."""
    assert "controlplane/py.typed" in wheel.namelist()
    assert "Apache License" in part(wheel, "licenses/LICENSE")


def test_the_distributions_contain_the_notice(wheel: ZipFile, unpacked: Path) -> None:
    """The wheel and the source distribution contain NOTICE; its folders and files exist."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert part(wheel, "licenses/NOTICE") == notice
    named = set(re.findall(r"\b(?:controlplane|tests|docs)/[\w/.-]*\w", notice))
    assert len(named) > 10
    assert sorted(path for path in named if not (unpacked / path).exists()) == []


def test_the_metadata_names_author_and_addresses(metadata: Message) -> None:
    """The metadata has the author and the links."""
    assert metadata["Author"]
    addresses = metadata.get_all("Project-URL", [])
    assert addresses
    assert all(", https://" in address for address in addresses)


def test_links_of_the_long_description_work_anywhere(metadata: Message) -> None:
    """The README's links into the repository are names of files there; no link is relative."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert re.findall(r"\]\((?!https?://)[^)]*\)", text) == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"\]\((?!https?://)([^)#]+)", readme):
        assert f"(`{path}`)" in text
        assert (ROOT / path).exists()


def test_the_changelog_has_this_version() -> None:
    """The newest released version in the changelog is the one that is built, with a date."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([\d.]+)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert released[0] == project["version"]


def test_the_source_distribution_is_the_repository(unpacked: Path) -> None:
    """The source distribution has every tracked file, so that its tests can run."""
    ours = {source.path for source in tracked() if source.path != "PKG-INFO"}
    assert sorted(path for path in ours if not (unpacked / path).is_file()) == []


def test_the_source_distribution_builds_the_same_wheel(
    unpacked: Path, wheel: ZipFile, tmp_path: Path
) -> None:
    """A wheel built from the source distribution has the files of one built from a clone."""
    again = ZipFile(built("wheel", unpacked, tmp_path))
    assert {member.filename: member.CRC for member in again.infolist()} == {
        member.filename: member.CRC for member in wheel.infolist()
    }


@pytest.mark.prove
def test_the_source_distribution_passes_its_tests(unpacked: Path) -> None:
    """Tests about files pass in the unpacked tree: no file is missing there."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not prove", *SELF_TESTS]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5_000:]


def declared(metadata: Message) -> list[Requirement]:
    """All dependencies, including those of extras."""
    return [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]


def required(metadata: Message) -> set[str]:
    """Names of the packages that are always installed."""
    return {requirement.name for requirement in declared(metadata) if not requirement.marker}


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Distributions of each installed module."""
    return packages_distributions()


def imported(package: str) -> set[str]:
    """Names of the distributions that a package of ours imports."""
    sources = [source for source in tracked("*.py") if source.path.startswith(f"{package}/")]
    parse(sources)
    modules = {name.partition(".")[0] for source in sources for _, name in imports(source)}
    foreign = modules - {*PACKAGES, *sys.stdlib_module_names}
    distributions = _distributions()
    names = {canonicalize_name(distributions[module][0]) for module in foreign}
    return {str(COME_ALONG.get(name, name)) for name in names} - HOSTS


def test_the_service_needs_no_spark(metadata: Message) -> None:
    """The service requires exactly what it imports; Spark comes with the extra of that name."""
    lines = metadata.get_all("Requires-Dist", [])
    assert required(metadata) == imported("controlplane")
    assert [line.partition("; ")[2] for line in lines if "pyspark" in line] == ["extra == 'spark'"]


def test_extras_declare_the_imports_of_replay(metadata: Message) -> None:
    """The service's dependencies and the two extras are enough for `replay`."""
    assert imported("replay") <= {requirement.name for requirement in declared(metadata)}


def test_the_lock_pins_every_package_by_hash(metadata: Message) -> None:
    """Each package has one version and at least one hash; no host of a registry is named."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = re.split(r"^(?=\S+==)", lock, flags=re.MULTILINE)[1:]
    assert len(packages) > len(required(metadata))
    assert not [text for text in packages if "--hash=sha256:" not in text]
    assert "://" not in lock


def test_the_lock_has_every_declared_dependency(metadata: Message) -> None:
    """The lock file has every declared dependency; `make lock` updates it."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not [name for name in required(metadata) if f"\n{name}==" not in lock]


@pytest.mark.parametrize("script", ["controlplane", "replay"])
def test_console_scripts_exist(wheel: ZipFile, script: str) -> None:
    """Both commands are declared, and installed in the tests' environment."""
    assert f"{script} = {script}.__main__:main" in part(wheel, ".dist-info/entry_points.txt")
    assert callable(import_module(f"{script}.__main__").main)
    (installed,) = entry_points(group="console_scripts", name=script)
    assert installed.value == f"{script}.__main__:main"
    assert Path(sys.executable).with_name(script).exists()

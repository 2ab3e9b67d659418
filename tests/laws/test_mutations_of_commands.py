"""Would the laws notice? Deciding, performing, folding and recovering are broken on purpose.

One slip at a time, in a copy; those laws whose business it is must be broken by it. Every law is
broken by at least one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.laws.commands.mutations import MUTATIONS, LawMutation
from tests.laws.commands.table import LAWS, RECOVERY

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "laws/commands",
    "laws/entries.py",
    "laws/test_compaction.py",
    "core/logs.py",
    "controller/scene.py",
)


def copy_of_the_project(target: Path) -> None:
    """The product, the laws, and nothing else."""
    shutil.copytree(ROOT / "controlplane", target / "controlplane")
    for name in TESTS:
        source, there = ROOT / "tests" / name, target / "tests" / name
        there.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, there)


def search(mutation: LawMutation, target: Path) -> "subprocess.CompletedProcess[str]":
    """Break a copy, and look for lives in which the laws do not hold."""
    copy_of_the_project(target)
    path = target / "controlplane" / mutation.file
    path.write_text(path.read_text().replace(mutation.text, mutation.slip))
    seeds = ",".join(map(str, mutation.seeds))
    command = [sys.executable, "-m", "tests.laws.commands.search", seeds]
    command += mutation.laws.split()
    return subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)


Searches = Mapping[str, "Future[subprocess.CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def searches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searches]:
    """Search results for every selected mutation; the searches run on all cores."""
    tested = (getattr(item, "callspec", None) for item in request.session.items)
    mutations = [spec.params["mutation"] for spec in tested if spec and "mutation" in spec.params]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            mutation.name: pool.submit(search, mutation, tmp_path_factory.mktemp("mutated"))
            for mutation in mutations
            if mutation in MUTATIONS
        }


def test_every_law_is_broken() -> None:
    """A law that nothing breaks says nothing."""
    noticed = {name for mutation in MUTATIONS for name in mutation.laws.split()}
    assert noticed == {*LAWS, *RECOVERY}


def test_every_mutation_finds_its_text() -> None:
    """Each text is in its file once; a mutation whose text is gone must be mended, not dropped."""
    package = ROOT / "controlplane"
    found = {one.name: (package / one.file).read_text().count(one.text) for one in MUTATIONS}
    assert {name: count for name, count in found.items() if count != 1} == {}


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_the_laws_notice(mutation: LawMutation, searches: Searches) -> None:
    """Each of those whose business it is finds a life in which it is broken."""
    done = searches[mutation.name].result()
    assert done.returncode == 0, f"not noticed by {done.stdout}\n{done.stderr[-2000:]}"

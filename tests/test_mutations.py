"""Would the suite notice? The fold is broken on purpose, one way at a time, in a copy.

Twelve ways, each a plausible slip; the sharp edges and the matrix of releases (`EDGES`, below) must
fail on every one of them:

 1. `state.v2` is forgotten                          7. a removal keeps the tasks
 2. an unknown `state.v2` falls back to `state`      8. stale UNASSIGNED is believed
 3. deferred tasks are visible before the commit     9. a status tombstone keeps the tasks
 4. an inconsistent commit leaves the count alone   10. an offset tombstone is forgotten
 5. deferred tasks survive their commit             11. aborted records are always seen
 6. a commit needs no connector config              12. undecodable values move the config offset
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = Path("controlplane/core")
EDGES = ("tests/core/test_edges.py", "tests/core/test_matrix.py")


class Mutation(NamedTuple):
    """One slip: in which file, which text becomes which."""

    name: str
    file: str
    text: str
    slip: str


MUTATIONS = [
    Mutation(
        "state.v2 forgotten",
        "codec/config.py",
        'content.get("state.v2") if profile.target_state_v2 else None',
        "None",
    ),
    Mutation(
        "unknown state.v2 falls back",
        "codec/config.py",
        "if not isinstance(state, str):\n        state",
        "if state not in _TARGETS_V2:\n        state",
    ),
    Mutation(
        "tasks visible before the commit",
        "fold/config.py",
        "self._deferred.put(record.connector, record.task, record.properties)",
        "self._apply_tasks(record.connector, {record.task: record.properties})",
    ),
    Mutation(
        "inconsistent commit keeps the old count",
        "fold/config.py",
        "self._task_counts.writable()[name] = count",
        "self._task_counts.writable()[name] = count if complete else 0",
    ),
    Mutation(
        "deferred tasks survive",
        "fold/config.py",
        "            self._deferred.writable()[name] = {}",
        "            pass",
    ),
    Mutation(
        "commit needs no config",
        "fold/config.py",
        "return self.profile.commit_needs_config and name",
        "return False and name",
    ),
    Mutation(
        "removal keeps tasks",
        "fold/config.py",
        "if self.profile.removal_drops_tasks:",
        "if False:",
    ),
    Mutation(
        "stale UNASSIGNED believed",
        "fold/status.py",
        "present.generation >= status.generation",
        "present.generation < status.generation",
    ),
    Mutation(
        "status tombstone keeps tasks",
        "fold/status.py",
        "for task in self._tasks.drop(name) or {}:",
        "for task in ():",
    ),
    Mutation(
        "offset tombstone forgotten",
        "fold/offsets.py",
        "            self._values.drop(key)",
        "            pass",
    ),
    Mutation(
        "aborted records always seen",
        "fold/__init__.py",
        "return known and not self.exactly_once",
        "return True",
    ),
    Mutation(
        "undecodable values move the offset",
        "codec/config.py",
        "advances=False",
        "advances=True",
    ),
]


def copy_of_the_project(target: Path) -> None:
    """The code, what its core is tested with, and nothing else."""
    for name in ("controlplane", "tests/core", "tests/oracle"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "tests/conftest.py", "tests/jars.py", "tests/patience.py"):
        shutil.copy(ROOT / name, target / name)


def run_tests(target: Path) -> subprocess.CompletedProcess[str]:
    """The edges and the matrix but for what asks Java, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "not java"]
    return subprocess.run(
        [*command, *EDGES],
        cwd=target,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_copy_passes_as_it_is(tmp_path: Path) -> None:
    """Else the failures below would prove nothing."""
    copy_of_the_project(tmp_path)
    done = run_tests(tmp_path)
    assert done.returncode == pytest.ExitCode.OK, done.stdout[-2000:]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[one.name for one in MUTATIONS])
def test_the_suite_notices(mutation: Mutation, tmp_path: Path) -> None:
    """A broken fold fails a test; a mutation whose text is gone must be mended, not dropped."""
    copy_of_the_project(tmp_path)
    path = tmp_path / CORE / mutation.file
    source = path.read_text()
    assert mutation.text in source, "the code has moved on: find the line again"
    path.write_text(source.replace(mutation.text, mutation.slip))
    done = run_tests(tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout[-2000:]
    assert " failed" in done.stdout, done.stdout[-2000:]  # and not: cannot be collected

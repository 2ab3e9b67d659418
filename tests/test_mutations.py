"""Mutation tests of the fold: each mutant has one plausible bug and runs in its own process.

For each of the twelve mutants, a test of the edge cases or of the version matrix must fail:

 1. `state.v2` is forgotten                          7. a removal keeps the tasks
 2. an unknown `state.v2` falls back to `state`      8. stale UNASSIGNED is believed
 3. deferred tasks are visible before the commit     9. a status tombstone keeps the tasks
 4. an inconsistent commit leaves the count alone   10. an offset tombstone is forgotten
 5. deferred tasks survive their commit             11. aborted records are always seen
 6. a commit needs no connector config              12. undecodable values move the config offset
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import sampled
from tests.mutant_processes import PACKAGE, MutantOutcome, MutantProcesses, SourceMutant

CORE = Path("core")
EDGES = "tests/core/test_edges.py"
MATRIX = "tests/core/test_matrix.py"


class Mutation(NamedTuple):
    """A bug: the file, its text, the text that replaces it, and the test that must fail."""

    name: str
    file: str
    text: str
    slip: str
    test: str


MUTATIONS = [
    Mutation(
        "state.v2 forgotten",
        "codec/config.py",
        'content.get("state.v2") if profile.target_state_v2 else None',
        "None",
        f"{EDGES}::test_edge_14_an_unknown_state_v2_blocks_the_fallback",
    ),
    Mutation(
        "unknown state.v2 falls back",
        "codec/config.py",
        "if not isinstance(state, str):\n        state",
        "if state not in _TARGETS_V2:\n        state",
        f"{EDGES}::test_edge_14_an_unknown_state_v2_blocks_the_fallback",
    ),
    Mutation(
        "tasks visible before the commit",
        "fold/config.py",
        "self._deferred.put(record.connector, record.task, record.properties)",
        "self._apply_tasks(record.connector, {record.task: record.properties})",
        f"{EDGES}::test_edge_08_deferred_tasks_beyond_the_count_are_applied_too",
    ),
    Mutation(
        "inconsistent commit keeps the old count",
        "fold/config.py",
        "self._task_counts.writable()[name] = count",
        "self._task_counts.writable()[name] = count if complete else 0",
        f"{EDGES}::test_edge_09_an_inconsistent_commit_still_sets_the_count",
    ),
    Mutation(
        "deferred tasks survive",
        "fold/config.py",
        "            self._deferred.writable()[name] = {}",
        "            pass",
        f"{MATRIX}::test_each_release_has_its_effect",
    ),
    Mutation(
        "commit needs no config",
        "fold/config.py",
        "return self.profile.commit_needs_config and name",
        "return False and name",
        f"{EDGES}::test_edge_11_an_early_commit_counts_up_to_3_7_0",
    ),
    Mutation(
        "removal keeps tasks",
        "fold/config.py",
        "if self.profile.removal_drops_tasks:",
        "if False:",
        f"{EDGES}::test_edge_12_releases_differ_in_the_remains_of_a_deletion",
    ),
    Mutation(
        "stale UNASSIGNED believed",
        "fold/status.py",
        "present.generation >= status.generation",
        "present.generation < status.generation",
        f"{EDGES}::test_edge_21_a_stale_unassigned_is_ignored",
    ),
    Mutation(
        "status tombstone keeps tasks",
        "fold/status.py",
        "for task in self._tasks.drop(name) or {}:",
        "for task in ():",
        f"{EDGES}::test_edge_20_a_status_tombstone_takes_the_tasks_along_across_partitions",
    ),
    Mutation(
        "offset tombstone forgotten",
        "fold/offsets.py",
        "value is None and self.profile.offset_tombstone_removes",
        "False and self.profile.offset_tombstone_removes",
        f"{MATRIX}::test_each_release_has_its_effect",
    ),
    Mutation(
        "aborted records always seen",
        "state.py",
        "return not exactly_once and topic in msgspec.structs.astuple(self)",
        "return True",
        f"{EDGES}::test_edge_28_only_exactly_once_support_is_blind_for_aborted_records",
    ),
    Mutation(
        "undecodable values move the offset",
        "codec/config.py",
        'f"undecodable value: {error}", advances=False',
        'f"undecodable value: {error}", advances=True',
        f"{EDGES}::test_edge_16_the_config_offset_skips_undecodable_values",
    ),
]


@pytest.fixture(scope="module")
def mutants() -> Iterator[MutantProcesses]:
    """Processes that have imported pytest and the modules of the tests."""
    with MutantProcesses("pytest", "hypothesis", "tests.core.test_edges") as processes:
        yield processes


def run_tests(mutants: MutantProcesses, slip: SourceMutant | None, *tests: str) -> MutantOutcome:
    """Run these tests, up to the first failure, without the plugins that they do not use."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin"]
    return mutants.run(slip, "pytest:main", [*options, *tests])


def test_all_pass_where_nothing_is_broken(mutants: MutantProcesses) -> None:
    """The tests pass without a mutation; otherwise the failures below would prove nothing."""
    done = run_tests(mutants, None, *dict.fromkeys(mutation.test for mutation in MUTATIONS))
    assert done.code == pytest.ExitCode.OK, done.output[-2000:]


def test_every_mutation_finds_its_text() -> None:
    """Each mutant's text occurs once in its file; a mutant whose text is gone must be repaired."""
    core = PACKAGE / CORE
    counts = {
        mutation.name: (core / mutation.file).read_text().count(mutation.text)
        for mutation in MUTATIONS
    }
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_every_mutant_is_a_bug_and_no_crash() -> None:
    """A mutant uses only names that its module defines: it must compute something wrong."""
    undefined = {
        mutation.name: SourceMutant(
            str(CORE / mutation.file), mutation.text, mutation.slip
        ).undefined_names()
        for mutation in MUTATIONS
    }
    assert {name: names for name, names in undefined.items() if names} == {}


@pytest.mark.parametrize(
    "mutation", sampled(MUTATIONS, *MUTATIONS[::2]), ids=[mutation.name for mutation in MUTATIONS]
)
def test_each_mutant_fails_its_test(mutation: Mutation, mutants: MutantProcesses) -> None:
    """The named test fails because of the mutant, and not because pytest cannot collect it."""
    slip = SourceMutant(str(CORE / mutation.file), mutation.text, mutation.slip)
    done = run_tests(mutants, slip, mutation.test)
    assert done.code == pytest.ExitCode.TESTS_FAILED, done.output[-2000:]
    assert " failed" in done.output, done.output[-2000:]

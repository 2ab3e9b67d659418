"""Mutation tests of the laws: mutants break the deciding, performing, folding or recovering.

Each mutant runs in its own process, and must break the laws that it names. Every law is broken by
at least one mutant.
"""

from collections.abc import Iterator

import pytest

from tests.conftest import sampled
from tests.laws.commands.mutations import MUTATIONS, LawMutation
from tests.laws.commands.table import LAWS, RECOVERY
from tests.mutant_processes import PACKAGE, MutantProcesses, SourceMutant

SEARCH = "tests.laws.commands.search"
LIVES = 5
"""Lives of the sound product; `test_commands.py` checks more."""


@pytest.fixture(scope="module")
def mutants() -> Iterator[MutantProcesses]:
    """Processes that have imported `SEARCH`, the search for laws that a mutant breaks."""
    with MutantProcesses(SEARCH) as processes:
        yield processes


def test_every_law_is_broken() -> None:
    """Each law is broken by a mutation; a law that nothing breaks proves nothing."""
    noticed = {name for mutation in MUTATIONS for name in mutation.laws.split()}
    assert noticed == {*LAWS, *RECOVERY}


def test_every_mutation_finds_its_text() -> None:
    """Each mutant's text occurs once in its file; a mutant whose text is gone must be repaired."""
    counts = {
        mutation.name: (PACKAGE / mutation.file).read_text().count(mutation.text)
        for mutation in MUTATIONS
    }
    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_every_mutant_is_a_bug_and_no_crash() -> None:
    """A mutant uses only names that its module defines: it must compute something wrong."""
    undefined = {
        mutation.name: SourceMutant(mutation.file, mutation.text, mutation.slip).undefined_names()
        for mutation in MUTATIONS
    }
    assert {name: names for name, names in undefined.items() if names} == {}


@pytest.mark.slow
def test_no_law_fails_without_a_mutation(mutants: MutantProcesses) -> None:
    """Every law holds for the sound product in the lives that reveal mutants."""
    laws = sorted({*LAWS, *RECOVERY})
    seeds = [seed for mutation in MUTATIONS for seed in mutation.seeds][:LIVES]
    done = mutants.run(None, f"{SEARCH}:main", seeds, laws, 0)
    assert (done.code, done.output.split()) == (1, laws)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation", sampled(MUTATIONS, *MUTATIONS[::4]), ids=[mutation.name for mutation in MUTATIONS]
)
def test_each_mutant_breaks_its_laws(mutation: LawMutation, mutants: MutantProcesses) -> None:
    """Each law that the mutant names is broken by some life."""
    slip = SourceMutant(mutation.file, mutation.text, mutation.slip)
    done = mutants.run(slip, f"{SEARCH}:main", mutation.seeds, mutation.laws.split())
    assert done.code == 0, f"not noticed by {done.output[-2000:]}"

"""Mutation tests of the laws: deciding, performing, folding and recovering are broken.

Each slip has a process of its own, and must break the laws that it names. Every law is broken by
at least one slip.
"""

from collections.abc import Iterator

import pytest

from tests.laws.commands.mutations import MUTATIONS, LawMutation
from tests.laws.commands.table import LAWS, RECOVERY
from tests.mutant_processes import PACKAGE, MutantProcesses, SourceMutant

SEARCH = "tests.laws.commands.search"
LIVES = 10
"""Lives of a sound product; more are looked at in `test_commands.py`."""


@pytest.fixture(scope="module")
def mutants() -> Iterator[MutantProcesses]:
    """Processes with all that a search imports."""
    with MutantProcesses(SEARCH) as processes:
        yield processes


def test_every_law_is_broken() -> None:
    """Each law is broken by a mutation; a law that nothing breaks proves nothing."""
    noticed = {name for mutation in MUTATIONS for name in mutation.laws.split()}
    assert noticed == {*LAWS, *RECOVERY}


def test_every_mutation_finds_its_text() -> None:
    """Each text is in its file once; a mutation whose text is gone must be mended, not dropped."""
    counts = {
        mutation.name: (PACKAGE / mutation.file).read_text().count(mutation.text)
        for mutation in MUTATIONS
    }
    assert {name: count for name, count in counts.items() if count != 1} == {}


@pytest.mark.slow
def test_nothing_is_noticed_where_nothing_is_broken(mutants: MutantProcesses) -> None:
    """Every law holds in lives that show slips; else the searches below prove nothing."""
    laws = sorted({*LAWS, *RECOVERY})
    seeds = [seed for mutation in MUTATIONS for seed in mutation.seeds][:LIVES]
    done = mutants.run(None, f"{SEARCH}:main", seeds, laws, 0)
    assert (done.code, done.output.split()) == (1, laws)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_the_laws_notice(mutation: LawMutation, mutants: MutantProcesses) -> None:
    """Each law named by the mutation finds a life in which it is broken."""
    slip = SourceMutant(mutation.file, mutation.text, mutation.slip)
    done = mutants.run(slip, f"{SEARCH}:main", mutation.seeds, mutation.laws.split())
    assert done.code == 0, f"not noticed by {done.output[-2000:]}"

"""Would the laws notice? Deciding, performing, folding and recovering are broken on purpose.

One slip at a time, in a process of its own; those laws whose business it is must be broken by it.
Every law is broken by at least one.
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
    """A law that nothing breaks says nothing."""
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
    """In lives that show slips, every law holds; else the searches below would prove nothing."""
    laws = sorted({*LAWS, *RECOVERY})
    seeds = [seed for mutation in MUTATIONS for seed in mutation.seeds][:LIVES]
    done = mutants.run(None, f"{SEARCH}:main", seeds, laws, 0)
    assert (done.code, done.output.split()) == (1, laws)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.name for mutation in MUTATIONS])
def test_the_laws_notice(mutation: LawMutation, mutants: MutantProcesses) -> None:
    """Each of those whose business it is finds a life in which it is broken."""
    slip = SourceMutant(mutation.file, mutation.text, mutation.slip)
    done = mutants.run(slip, f"{SEARCH}:main", mutation.seeds, mutation.laws.split())
    assert done.code == 0, f"not noticed by {done.output[-2000:]}"

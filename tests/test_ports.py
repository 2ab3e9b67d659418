"""Ports for programs that tests start."""

from itertools import chain

import pytest

from tests.ports import HIGHEST, LOWEST, free_ports, ports_of


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 16])
def test_processes_share_no_port(processes: int) -> None:
    """Each process has more than a thousand ports of its own, all of them in the allowed range."""
    slices = [ports_of(number, processes) for number in range(processes)]
    ports = list(chain.from_iterable(slices))
    assert len(ports) == len(set(ports))
    assert min(ports) == LOWEST
    assert max(ports) < HIGHEST
    assert all(len(own) > 1_000 for own in slices)


def test_no_port_is_given_out_twice() -> None:
    """Ports that no program has bound yet are not given out again."""
    ports = free_ports(200)
    assert len(set(ports)) == len(ports)

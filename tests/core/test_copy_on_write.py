"""Copy-on-write tables behave like a dict that is copied at each publication."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import copy_on_write
from controlplane.core.copy_on_write import CopyOnWrite, LayeredDict, plain_copy

steps = st.lists(
    st.tuples(st.sampled_from(["put", "put", "drop", "publish"]), st.integers(0, 12)), max_size=60
)


@pytest.fixture(autouse=True)
def every_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give tables layers from the first item on."""
    monkeypatch.setattr(copy_on_write, "SMALL", 0)


def same(table: Any, plain: dict[Any, Any]) -> bool:
    """True if a mapping equals this dict in every respect: items, order, length, missing keys."""
    return (
        list(table.items()) == list(plain.items())
        and list(table) == list(plain)
        and list(table.values()) == list(plain.values())
        and [table.get(key, "none") for key in range(14)]
        == [plain.get(key, "none") for key in range(14)]
        and [key in table for key in range(14)] == [key in plain for key in range(14)]
        and len(table) == len(plain)
        and table == plain
        and plain == table
        and repr(dict(table)) == repr(plain)
    )


@given(st.dictionaries(st.integers(0, 12), st.integers()), steps)
def test_a_table_behaves_as_a_dict_and_published_states_stay(
    begin: dict[int, int], steps: list[tuple[str, int]]
) -> None:
    """Writes between publications behave as on a dict, and published states never change."""
    table: CopyOnWrite[int, int] = CopyOnWrite()
    table.take(dict(begin))
    plain = dict(begin)
    published = []
    for number, (operation, key) in enumerate(steps):
        if operation == "put":
            table.writable()[key] = plain[key] = number
        elif operation == "drop":
            assert table.drop(key) == plain.pop(key, None)
        else:
            published.append((table.publish(), dict(plain)))
        assert same(table.items, plain)
    assert all(same(then, was) for then, was in published)


def test_publishing_and_writing_copy_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write copies one layer of a large table; layers are merged in time."""
    monkeypatch.undo()
    table: CopyOnWrite[int, int] = CopyOnWrite()
    table.take(dict.fromkeys(range(10_000), 0))
    bases: list[dict[int, int]] = []
    thickest = 0
    for number in range(1_000):
        table.publish()
        table.writable()[number] = 1
        if isinstance(table.items, LayeredDict):
            thickest = max(thickest, len(table.items._written) + len(table.items._removed))
            base = table.items._base
            bases += [base] if not bases or base is not bases[-1] else []
    assert 100 < thickest <= 201
    assert len(bases) <= 10
    assert sum(table.items.values()) == 1_000


def test_a_missing_key_cannot_be_removed() -> None:
    """Looking up or deleting a missing key raises, as in a dict; `drop` returns None."""
    table: CopyOnWrite[str, int] = CopyOnWrite()
    table.take({"a": 1})
    table.publish()
    assert table.drop("b") is None
    del table.writable()["a"]
    for missing in ("a", "b"):
        with pytest.raises(KeyError):
            del table.writable()[missing]
        with pytest.raises(KeyError):
            table.items[missing]


@given(st.dictionaries(st.integers(0, 12), st.integers()), st.booleans())
def test_a_plain_copy_is_independent(begin: dict[int, int], written: bool) -> None:
    """A copy of a dict or of a published table is a dict of its own, also with a layer."""
    table: CopyOnWrite[int, int] = CopyOnWrite()
    table.take(begin)
    items = table.publish()
    if written:
        table.writable()[13] = 1
        items = table.publish()
    expected = dict(items)
    for source in (items, expected):
        copied = plain_copy(source)
        assert type(copied) is dict
        assert list(copied.items()) == list(expected.items())
        copied[14] = 2
        assert 14 not in source

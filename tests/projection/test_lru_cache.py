"""A dict of limited size."""

from controlplane.projection.lru_cache import LruCache


def test_the_least_recently_used_entry_is_evicted() -> None:
    """The cache evicts the entry whose last lookup or `put` is the oldest."""
    kept: LruCache[str, int] = LruCache(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.use("a") == 1
    kept.put("c", 3)
    assert (kept.use("b"), sorted(kept.values()), len(kept)) == (None, [1, 3], 2)


def test_a_second_put_replaces_the_value() -> None:
    """A second `put` of a key replaces its value."""
    kept: LruCache[str, int] = LruCache(2)
    assert [kept.put("a", number) for number in (1, 2)] == [1, 2]
    assert list(kept.values()) == [2]


def test_clear_removes_every_key() -> None:
    """After `clear` no key has a value."""
    kept: LruCache[str, int] = LruCache(2)
    kept.put("a", 1)
    kept.clear()
    assert kept.use("a") is None

"""Compaction of an archive whose files cannot be removed."""

import os
from pathlib import Path
from time import time

import pytest

from replay.archive import layout
from replay.archive.manifest import read_chain
from replay.archive.merges.unnamed_files import AGE_S
from replay.archive.stores.object_store import CLAIMS
from replay.archive.stores.store import FolderStore
from replay.cli.execution.compactions import CompactionOptions, compact
from replay.errors import NotWritable
from replay.progress import NoProgress
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME
from tests.replay.archive.merges import two_looks


class UndeletableStore(FolderStore):
    """Folder without the permission to delete."""

    def remove(self, name: str) -> None:
        """Refuse the removal."""
        raise NotWritable(f"{name} cannot be removed")


def test_each_compaction_merges_without_permission_to_delete(tmp_path: Path) -> None:
    """An old trial object and replaced files do not prevent a merge; the error comes after it."""
    store = two_looks(UndeletableStore(str(tmp_path)), recorded_entries("aborted-3.9"))
    assert len(read_chain(store, NAME).manifests) > 1
    trial = f"{layout.manifests(NAME)}/{CLAIMS}/conditional-put-1"
    store.add(trial, b"")
    past_s = time() - AGE_S - 1
    os.utime(tmp_path / trial, (past_s, past_s))
    with pytest.raises(NotWritable, match="cannot be removed"):
        compact(store, NAME, CompactionOptions(), NoProgress())
    assert len(read_chain(store, NAME).manifests) == 1

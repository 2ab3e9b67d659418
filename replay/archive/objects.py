"""Archives in object stores: S3, and what speaks like it.

A file appears when it is closed, whole. That a name is taken, such a store does not say. So who
wants a name that others may want claims it first, by a file of his own beside it. A store lists
what was written before, so of two who claim at once the later one sees the other and lets go, or
both do: at most one goes on. Claims of the dead lapse; until then nobody gets the name.
"""

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from time import monotonic
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from controlplane.core.file_sentences import because
from replay.archive import hadoop
from replay.errors import NoArchive, NotWritable

CLAIM_S = 600
"""How long a claim holds, by the clock of the store."""

ANY_REGION = "us-east-1"
"""For stores that have one region, whatever they call it."""

HESITATION_S = 60
"""After so long between a claim and what it is for, one lets go: far less than it holds."""


class Objects:
    """A folder in a bucket."""

    def __init__(
        self,
        where: str,
        system: fs.FileSystem,
        root: str,
        settings: hadoop.Settings = hadoop.NONE,
    ) -> None:
        self.where = where
        self.settings = settings
        self._system = system
        self._root = root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        """The names of what lies directly in a folder, sorted."""
        return sorted(one.base_name for one in self._found(folder, recursive=False))

    def walk(self, folder: str) -> Iterator[str]:
        """Every file in a folder and the folders in it."""
        files = (one for one in self._found(folder, recursive=True) if one.is_file)
        yield from sorted(one.path[len(self._root) + 1 :] for one in files)

    def size(self, name: str) -> int | None:
        """How many bytes a file has."""
        with reading(self.where):
            (found,) = self._system.get_file_info([self._path(name)])
        return int(found.size) if found.is_file else None

    def read(self, name: str) -> bytes:
        """All of a file."""
        with reading(self.where), self._system.open_input_stream(self._path(name)) as file:
            content: bytes = file.read()
            return content

    def open(self, name: str) -> pa.NativeFile:
        """A file to be read here and there."""
        with reading(self.where):
            return self._system.open_input_file(self._path(name))

    def add(self, name: str, content: bytes) -> bool:
        """Write a file, durably."""
        if self.size(name) is not None:
            return False
        self._write(name, content)
        return True

    def take(self, name: str, content: bytes) -> bool:
        """Write a file for which others may have something else."""
        folder, _, wanted = name.rpartition("/")
        claims = f"{folder}/_claims"
        mine = f"{wanted}-{uuid4()}"
        begun = monotonic()
        self._write(f"{claims}/{mine}", b"")
        try:
            # Who claimed it before and has let go since, has written what he wanted to.
            if self._claimed_by_others(claims, wanted, mine) or self.size(name) is not None:
                return False
            if monotonic() - begun > HESITATION_S:
                return False
            self._write(name, content)
        finally:
            with suppress(OSError):  # who may not remove anything leaves claims behind
                self._system.delete_file(self._path(f"{claims}/{mine}"))
        return True

    def _claimed_by_others(self, claims: str, wanted: str, mine: str) -> bool:
        """Whether somebody else who has not died long ago claims it; or who knows."""
        found = self._found(claims, recursive=False)
        times = {one.base_name: one.mtime for one in found if one.base_name.startswith(wanted)}
        if mine not in times:  # such a store does not list at once what was written
            return True
        lapsed = times.pop(mine) - timedelta(seconds=CLAIM_S)
        return any(time > lapsed for time in times.values())

    def _write(self, name: str, content: bytes) -> None:
        # What breaks off an upload would also close it, and so make count what was sent. Ctrl-C is
        # heard in the main thread only: another one is through with it first.
        with ThreadPoolExecutor(1) as thread:
            upload = thread.submit(self._upload, self._path(name), content)
            try:
                upload.result()
            except OSError as error:
                raise NotWritable(f"{self.where} cannot be written {why_not(error)}") from None

    def _upload(self, path: str, content: bytes) -> None:
        with self._system.open_output_stream(path) as file:
            file.write(content)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def _found(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        path = self._path(folder)
        wanted = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
        with reading(self.where):
            found: list[fs.FileInfo] = self._system.get_file_info(wanted)
            if not found:
                self._check_bucket()
            return found

    def _check_bucket(self) -> None:
        """Where nothing is: is there anywhere that anything could be?"""
        bucket = self._root.partition("/")[0]
        (found,) = self._system.get_file_info([bucket])
        if found.type == fs.FileType.NotFound:
            raise NoArchive(f"{self.where}: there is no bucket {bucket}: make it, or mend the name")


# --- what went wrong ----------------------------------------------------------------------------

_OF_AWS = re.compile(
    r"AWS Error (\w+) during \w+ operation: (.*?)\.?( \(Request ID: .*\))?$", re.DOTALL
)

_KEYS = "look at fs.s3a.access.key and fs.s3a.secret.key, or what gives keys in their place"
_PLACE = "look at fs.s3a.endpoint, and whether it can be reached"

_ADVICE = {
    "ACCESS_DENIED": f"{_KEYS}, and at what they allow",
    "INVALID_ACCESS_KEY_ID": _KEYS,
    "INVALID_CLIENT_TOKEN_ID": _KEYS,
    "SIGNATURE_DOES_NOT_MATCH": _KEYS,
    "UNRECOGNIZED_CLIENT": _KEYS,
    "NETWORK_CONNECTION": _PLACE,
    "NO_SUCH_BUCKET": "make it, or mend the name",
}


def why_not(error: OSError) -> str:
    """What a store complained of, and what to do, as the end of a sentence."""
    found = _OF_AWS.search(str(error))
    if found is None:
        return because(error)
    kind, words = found[1], found[2].splitlines()[0]
    return f"({kind}: {words}): {_ADVICE.get(kind, 'look there')}"


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Say in one sentence that nothing can be read there."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NoArchive(f"{where} cannot be read {why_not(error)}") from None


def is_outage(error: Exception) -> bool:
    """Whether a file could not be read because of the store, and not because of what is in it."""
    return isinstance(error, OSError) and _OF_AWS.search(str(error)) is not None


# --- S3 ------------------------------------------------------------------------------------------


def bucket_at(where: str, path: str, settings: hadoop.Settings) -> Objects:
    """What lies at `bucket/folder`. A query (`?region=…`) is Arrow's, and says all by itself.

    Raises:
        NoArchive: the URL says more than where it is, or less.
        BadSetting: a setting is unknown, or means nothing.
    """
    bucket = path.partition("/")[0]
    if "@" in bucket:
        raise NoArchive(
            "keys do not belong into a URL: give fs.s3a.access.key and fs.s3a.secret.key"
        )
    if not bucket:
        raise NoArchive(f"{where} names no bucket: write s3a://bucket/folder")
    try:
        if "?" in path:
            return Objects(where, *fs.FileSystem.from_uri(f"s3://{path}"))
        options = hadoop.for_arrow(settings, bucket)
        if "region" not in options:
            options["region"] = _region(bucket, options)
        # A file is then sent when it is closed, in one go if it is small.
        system = fs.S3FileSystem(**options, allow_delayed_open=True)
    except ValueError as error:
        raise NoArchive(f"{where} cannot be opened ({str(error).splitlines()[0]})") from None
    except OSError as error:
        raise NoArchive(f"{where} cannot be opened {why_not(error)}") from None
    return Objects(where, system, path, settings)


def _region(bucket: str, options: Mapping[str, Any]) -> str:
    """Where a bucket lies, where nobody has told: AWS is asked, others do not care."""
    told_by_aws = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if told_by_aws:
        return told_by_aws
    return ANY_REGION if "endpoint_override" in options else _asked_region(bucket)


@cache
def _asked_region(bucket: str) -> str:
    region: str = fs.resolve_s3_region(bucket)
    return region

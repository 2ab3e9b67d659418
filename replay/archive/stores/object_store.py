"""Archives in object stores: S3 and compatible ones.

A file appears complete when it is closed. A contested name is written by a conditional put, which
the store refuses if the name is taken. In a store without conditional puts, a writer claims the
name first, with a file of its own beside it. A store lists every file that was complete before the
request. So of two simultaneous claims at least the later writer sees the other claim. A writer that
sees another claim withdraws: at most one continues. Claims of dead writers expire; until then the
name stays blocked.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import cache
from time import monotonic, time
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from replay.archive.stores import hadoop_settings
from replay.archive.stores.concurrent_requests import REQUESTS_AT_ONCE
from replay.archive.stores.conditional_puts import ConditionalPuts
from replay.archive.stores.store_errors import reading, why_not
from replay.errors import NoArchive, NotWritable, WriteUncertain

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

CLAIMS = "_claims"
"""Folder beside a contested name in which writers claim it."""

CLAIM_S = 600
"""Validity of a claim in seconds, by the clock of the store."""

ANY_REGION = "us-east-1"
"""Region for stores other than AWS: they accept any region name."""

HESITATION_S = 60
"""Greatest number of seconds from a claim to the write, far less than `CLAIM_S`. If more have
passed, the writer withdraws."""


class BucketStore:
    """Archive store in a folder of an object store's bucket."""

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(
        self,
        where: str,
        system: fs.FileSystem,
        root: str,
        settings: hadoop_settings.HadoopSettings = hadoop_settings.NONE,
    ) -> None:
        self.where = where
        self.settings = settings
        self._system = system
        self._root = root.rstrip("/")
        self._puts = (
            ConditionalPuts(where, system, self._root.partition("/")[0])
            if isinstance(system, fs.S3FileSystem)
            else None
        )
        """Conditional puts; None if the store has none, so that writers claim names."""

    def names(self, folder: str) -> list[str]:
        """Names directly in a folder, sorted."""
        return sorted(file.base_name for file in self._files_in(folder, recursive=False))

    def walk(self, folder: str) -> Iterator[str]:
        """All files in a folder and its subfolders."""
        files = (file for file in self._files_in(folder, recursive=True) if file.is_file)
        yield from sorted(file.path[len(self._root) + 1 :] for file in files)

    def size(self, name: str) -> int | None:
        """Size of a file in bytes; None if it does not exist."""
        with reading(self.where):
            (info,) = self._system.get_file_info([self._path(name)])
        return int(info.size) if info.is_file else None

    def modified_s(self, name: str) -> float | None:
        """Time at which a file was written, in seconds since 1970; None if it does not exist."""
        with reading(self.where):
            (info,) = self._system.get_file_info([self._path(name)])
        return info.mtime.timestamp() if info.is_file and info.mtime else None

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Read a file, or its first bytes. Raises `FileNotFoundError`."""
        with reading(self.where), self._unchanged(name) as file:
            content: bytes = file.read(None if most_bytes < 0 else most_bytes)
            return content

    def _unchanged(self, name: str) -> pa.NativeFile:
        """Open a file for reading its bytes; by default, Arrow decompresses `.zst`."""
        return self._system.open_input_stream(self._path(name), compression=None)

    def open(self, name: str) -> pa.NativeFile:
        """Open a file for random access."""
        with reading(self.where):
            return self._system.open_input_file(self._path(name))

    def add(self, name: str, content: bytes) -> bool:
        """Write a file durably; return False if the name is taken."""
        if self.size(name) is not None:
            return False
        self._write(name, content)
        return True

    def take(self, name: str, content: bytes) -> bool:
        """Write a file under a contested name; return False if it is taken or claimed.

        Raises:
            NotWritable: an outage of the store, or no permission.
            WriteUncertain: the store has not answered, so the file may still appear.
        """
        folder, _, base_name = name.rpartition("/")
        claims = f"{folder}/{CLAIMS}" if folder else CLAIMS
        puts = self._puts  # another thread may find an obstacle meanwhile
        if puts is None:
            return self._take_by_claim(name, content, claims, base_name)
        obstacle = puts.obstacle(self._key(claims))
        if obstacle is None:
            return _uninterrupted(puts.put, self._key(name), content)
        is_taken = self._take_by_claim(name, content, claims, base_name)
        # The claim has shown that the store works: only the conditional put does not.
        self._puts = None
        _LOG.warning(
            "%s: %s. Run one capture per cluster: two at once may replace each other's manifest.",
            self.where,
            obstacle,
        )
        return is_taken

    def _take_by_claim(self, name: str, content: bytes, claims: str, base_name: str) -> bool:
        mine = f"{base_name}-{uuid4()}"
        running_s, begun_s = monotonic(), time()
        self._write(f"{claims}/{mine}", b"")
        with ExitStack() as withdrawal:
            withdrawal.callback(self._withdraw, f"{claims}/{mine}")
            # An earlier claimant may have written the file and removed its claim since.
            if self._claimed_by_others(claims, base_name, mine) or self.size(name) is not None:
                return False
            # The monotonic clock stops while the machine is suspended.
            if max(monotonic() - running_s, time() - begun_s) > HESITATION_S:
                return False
            try:
                self._write(name, content)
            except NotWritable as outage:
                # Arrow repeats requests and tells the last answer only. An earlier attempt may
                # still take effect, so the claim stays until it lapses.
                withdrawal.pop_all()
                raise WriteUncertain(str(outage)) from None
        return True

    def _withdraw(self, claim: str) -> None:
        with suppress(OSError):  # without the permission to delete, claims remain
            self._system.delete_file(self._path(claim))

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in place of another; a reader sees one of the two."""
        self._write(name, content)

    def remove(self, name: str) -> None:
        """Remove a file. Arrow may leave an empty object that marks the folder."""
        try:
            with suppress(FileNotFoundError):
                self._system.delete_file(self._path(name))
        except OSError as error:
            raise NotWritable(f"{self.where} cannot be written {why_not(error)}") from None

    def _claimed_by_others(self, claims: str, base_name: str, mine: str) -> bool:
        """True if another live writer claims the name, or if the claims are unclear."""
        files = self._files_in(claims, recursive=False)
        times = {
            file.base_name: file.mtime for file in files if file.base_name.startswith(base_name)
        }
        if mine not in times:
            # This store lists new files late, so it may hide another claim, too.
            return True
        lapsed = times.pop(mine) - timedelta(seconds=CLAIM_S)
        return any(time > lapsed for time in times.values())

    def _write(self, name: str, content: bytes) -> None:
        try:
            _uninterrupted(self._upload, self._path(name), content)
        except OSError as error:
            raise NotWritable(f"{self.where} cannot be written {why_not(error)}") from None

    def _upload(self, path: str, content: bytes) -> None:
        # By default, Arrow would compress a file that is called `.zst` a second time.
        with self._system.open_output_stream(path, compression=None) as file:
            file.write(content)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")

    def _key(self, name: str) -> str:
        """Name of a file within the bucket."""
        return self._path(name).partition("/")[2]

    def _files_in(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        path = self._path(folder)
        selector = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
        with reading(self.where):
            infos: list[fs.FileInfo] = self._system.get_file_info(selector)
            if not infos:
                self._check_bucket()
            return infos

    def _check_bucket(self) -> None:
        """Check that the bucket exists, if nothing was found in it."""
        bucket = self._root.partition("/")[0]
        (info,) = self._system.get_file_info([bucket])
        if info.type == fs.FileType.NotFound:
            raise NoArchive(
                f"{self.where}: there is no bucket {bucket}: create it, or correct the name"
            )


def _uninterrupted(write: Callable[[str, bytes], T], name: str, content: bytes) -> T:
    """Finish a write even if Ctrl-C interrupts the command.

    Breaking off an upload of Arrow would also close it, and the partial content would count. A
    broken conditional put would have an unknown outcome. Ctrl-C is delivered to the main thread
    only, so another thread writes.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(write, name, content).result()


# --- S3 ------------------------------------------------------------------------------------------


def bucket_at(where: str, path: str, settings: hadoop_settings.HadoopSettings) -> BucketStore:
    """Open the store at `bucket/folder`. A query (`?region=…`) goes to Arrow unchanged.

    Raises:
        NoArchive: the URL has unexpected or missing parts.
        BadStoreSetting: a setting is unknown or invalid.
    """
    place, has_query, _ = path.partition("?")
    bucket = place.partition("/")[0]
    # A secret key may contain a slash. Then the text before the first slash has no `@`, but the `:`
    # after the access key: `KEY:SEC` in `KEY:SEC/RET@bucket`.
    if "@" in bucket or ":" in bucket:
        raise NoArchive(
            "keys and a port do not belong in a URL: give fs.s3a.access.key, fs.s3a.secret.key and "
            "fs.s3a.endpoint"
        )
    shown = where.partition("?")[0]  # a query may hold a key by mistake
    if not bucket:
        raise NoArchive(f"{shown} names no bucket: write s3a://bucket/folder")
    if "//" in place.rstrip("/"):
        raise NoArchive(f"{shown} names a folder without a name: write s3a://bucket/folder")
    try:
        if has_query:
            return BucketStore(where, *fs.FileSystem.from_uri(f"s3://{path}"))
        options = hadoop_settings.for_arrow(settings, bucket)
        if "region" not in options:
            options["region"] = _region(bucket, options)
        # Delayed open sends a small file in one request when it is closed.
        system = fs.S3FileSystem(**options, allow_delayed_open=True)
    except ValueError as error:
        raise NoArchive(f"{shown} cannot be opened ({str(error).splitlines()[0]})") from None
    except OSError as error:
        raise NoArchive(f"{shown} cannot be opened {why_not(error)}") from None
    return BucketStore(where, system, path, settings)


def _region(bucket: str, options: Mapping[str, Any]) -> str:
    """Region of a bucket if no setting names it: AWS is asked, other stores accept any."""
    from_environment = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if from_environment:
        return from_environment
    return ANY_REGION if "endpoint_override" in options else _region_at_aws(bucket)


@cache
def _region_at_aws(bucket: str) -> str:
    region: str = fs.resolve_s3_region(bucket)
    return region

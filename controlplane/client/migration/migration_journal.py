"""Journal of a migration: a private file that survives a crash."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from controlplane.client.connectors.connector_files import no_unicode
from controlplane.client.migration.migration_plan import FORMAT, Migration
from controlplane.core.text.file_errors import unreadable, unwritable
from controlplane.logs.sqlite.writer_lock import LogHeld, writer_lock
from controlplane.private_files import replacing
from controlplane.terminal.command_errors import InputRefused

NAME_CHARACTERS = 200
"""Maximum characters of a connector's name in the name of its journal's file."""

_FILE_NAME_BYTES = 255
"""Maximum bytes of a file's name in most file systems."""


def default_journal(name: str) -> Path:
    """Journal in the working directory, by the connector's name; a long name is cut.

    Earlier versions did not cut the name. A journal that they left keeps its path.
    """
    quoted = quote(name, safe="")
    whole = _journal(quoted)
    is_left = len(whole.name) <= _FILE_NAME_BYTES and whole.exists()
    return whole if is_left else _journal(quoted[:NAME_CHARACTERS])


def _journal(quoted: str) -> Path:
    return Path(f"controlplane-migrate-{quoted}.json")


class MigrationJournal:
    """File with the present state of a migration; each write replaces it atomically."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from running the migration within the block.

        Raises:
            InputRefused: another process runs it.
            LogNotUsable: the lock file cannot be opened.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(writer_lock(self.path))
            except LogHeld as held:
                raise InputRefused(
                    f"process {held.process or 'unknown'} runs the migration of {self.path}: wait "
                    "until it ends, or end that process first"
                ) from None
            yield

    def read(self) -> Migration | None:
        """The migration in the file; None: there is no file.

        Raises:
            InputRefused: the file is no journal, or cannot be read.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as failure:
            raise InputRefused(unreadable(self.path, failure)) from None
        try:
            migration = msgspec.json.decode(text, type=Migration)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputRefused(
                f"{self.path} is no journal of a migration ({error}): name another --journal"
            ) from None
        if migration.migration != FORMAT:
            raise InputRefused(
                f"the journal {self.path} has format {migration.migration}, and this version "
                f"reads {FORMAT}: finish the migration with the version that began it"
            )
        return migration

    def write(self, migration: Migration) -> None:
        """Store a migration; durable when this returns.

        Raises:
            InputRefused: the file cannot be written, or the connector's name is no Unicode text.
        """
        try:
            with replacing(self.path) as draft:
                draft.write_bytes(msgspec.json.encode(migration))
        except OSError as failure:
            raise InputRefused(unwritable(self.path, failure)) from None
        except UnicodeEncodeError:
            raise no_unicode(migration.name) from None

    def remove(self) -> None:
        """Remove the file: the migration has ended, or everything is undone."""
        self.path.unlink(missing_ok=True)

"""The command `backup`: copy an embedded log while it is in use."""

import asyncio
from pathlib import Path

import click
import msgspec

from controlplane.core.order import Ends
from controlplane.logs.log import LogNotUsable
from controlplane.logs.names import check_file, is_cluster, is_embedded, path_of, without_login
from controlplane.logs.sqlite import SqliteLog
from controlplane.terminal.log_options import output_option
from controlplane.terminal.output import print_json, say
from controlplane.terminal.progress_bar import working
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table


class BackupReport(msgspec.Struct, frozen=True):
    """Output of `backup -o json`: both files, bytes and end offsets of the copy."""

    log: str
    target: str
    size_bytes: int
    ends: Ends


@click.command("backup")
@click.argument("log", shell_complete=complete_files)
@click.argument("target", shell_complete=complete_files)
@output_option
def backup(log: str, target: str, output: str) -> None:
    """Copy LOG, an embedded log, to TARGET, a new file.

    Other processes may read and write LOG meanwhile: the copy is the log at one instant. TARGET
    appears once the copy is complete and checked, and is a log ready for use. Exit code 2: nothing
    was copied, for instance because TARGET exists.
    """
    source, path = _source(log), _target(target)
    with working(f"copying {source}"):
        ends = asyncio.run(_copy(source, path))
    _print(BackupReport(log, target, path.stat().st_size, ends), output)


def _source(name: str) -> Path:
    if not is_cluster(name):
        check_file(path_of(name))
        if is_embedded(name):
            return path_of(name)
    raise LogNotUsable(
        f"{without_login(name)} is no embedded log: copy it into one with `controlplane import`"
    )


def _target(name: str) -> Path:
    if is_cluster(name):
        raise LogNotUsable(f"{without_login(name)} is a cluster: name a new file as TARGET")
    return path_of(name)


async def _copy(source: Path, path: Path) -> Ends:
    log = await SqliteLog.open(source, create=False, read_only=True)
    try:
        return await log.backup(path)
    finally:
        await log.close()


def _print(report: BackupReport, output: str) -> None:
    if output == "json":
        print_json(msgspec.structs.asdict(report))
        return
    rows = [
        (topic, str(len(ends)), ", ".join(map(str, ends))) for topic, ends in report.ends.items()
    ]
    table(("TOPIC", "PARTITIONS", "COPIED UP TO"), rows)
    say()
    say(f"{report.log} copied to {report.target}: {report.size_bytes / 2**20:.1f} MiB, checked")

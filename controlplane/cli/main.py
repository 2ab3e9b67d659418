"""Commands of `controlplane`. Each is imported on use, so that the start stays fast."""

import sys
from io import TextIOWrapper

import click

from controlplane.terminal.option_names import ACCESS_HELP
from controlplane.terminal.program_group import CommandEntry, ProgramGroup
from controlplane.terminal.shell_completion import complete_files


def _client(place: str, about: str) -> CommandEntry:
    return CommandEntry(f"controlplane.client.commands.{place}", about)


LOGS = {
    "import": CommandEntry(
        "controlplane.cli.copies.import_command:import_logs", "Copy logs into an embedded log."
    ),
    "backup": CommandEntry(
        "controlplane.cli.copies.backup_command:backup", "Copy an embedded log that is in use."
    ),
    "copy": CommandEntry(
        "controlplane.cli.copies.copy_command:copy", "Copy a log to topics in Kafka, or back."
    ),
    "inspect": CommandEntry(
        "controlplane.cli.inspect.inspect_command:inspect",
        "Show the state that a worker would have.",
    ),
    "records": CommandEntry(
        "controlplane.cli.records_command:records", "Show the last records of a topic."
    ),
    "plan": CommandEntry(
        "controlplane.cli.plan.plan_command:plan", "Show the records that a request would write."
    ),
    "verify": CommandEntry(
        "controlplane.cli.verify.verify_command:verify",
        "Compare a log with answers of workers, recorded or live.",
    ),
    "serve": CommandEntry(
        "controlplane.cli.serve.serve_command:serve", "Serve Connect's REST API from a log."
    ),
    "standalone": CommandEntry(
        "controlplane.cli.standalone.standalone_command:standalone",
        "Run a standalone worker: connectors in Python.",
    ),
    "config": CommandEntry(
        "controlplane.cli.config_command:config", "Show the settings and the source of each."
    ),
    "credential": CommandEntry(
        "controlplane.cli.credential_command:credential", "Create a credential for `serve`."
    ),
    "scenario": CommandEntry("controlplane.cli.scenario_command:scenario", "Run scenario files."),
}

CLUSTERS = {
    "get": _client("resource_verbs:get", "List connectors, plugins, loggers, …"),
    "describe": _client("describe_command:describe", "Show a connector or a plugin in full."),
    "apply": _client("apply_command:apply", "Create or update connectors from files."),
    "diff": _client("diff_command:diff", "Compare connectors with files or with another moment."),
    "patch": _client("resource_verbs:patch", "Change some settings of a connector or logger."),
    "pause": _client(
        "lifecycle_commands:pause", "Pause connectors; their tasks stay assigned, idle."
    ),
    "resume": _client("lifecycle_commands:resume", "Resume paused or stopped connectors."),
    "stop": _client(
        "lifecycle_commands:stop", "Stop connectors; their offsets can then be altered."
    ),
    "restart": _client("lifecycle_commands:restart", "Restart connectors or tasks."),
    "delete": _client("resource_verbs:delete", "Delete connectors or offsets."),
    "offsets": _client("offset_commands:offsets", "Get, edit, alter or reset offsets."),
    "topics": _client("topic_commands:topics", "List or reset the topics that connectors use."),
    "plugins": _client("resource_verbs:plugins", "List plugins; write a plugin catalogue."),
    "history": _client("history_commands:history", "Show every change of a connector."),
    "undo": _client("history_commands:undo", "Restore a connector to an earlier moment."),
    "commands": _client("history_commands:commands", "List commands with caller and outcome."),
    "watch": _client("watch_command:watch", "Follow changes as they happen."),
    "bundle": _client("bundle_commands:bundle", "Copy connectors to another cluster."),
    "migrate": _client("migrate_command:migrate", "Move a connector to another cluster."),
    "completion": CommandEntry(
        "controlplane.cli.completion_command:completion", "Print the completion script of a shell."
    ),
}

SECTIONS = {"Commands about a log": LOGS, "Commands about a cluster": CLUSTERS}
COMMANDS = LOGS | CLUSTERS


BEFORE = {"where": "--cluster", "user": "--user", "token": "--token", "ca_file": "--ca-file"}
"""Options of most commands about a cluster; they may also stand before the command."""


def _takes(command: click.Command, flag: str) -> bool:
    """True if a command or one of its subcommands takes an option."""
    subcommands = command.commands.values() if isinstance(command, click.Group) else ()
    has_option = any(flag in parameter.opts for parameter in command.params)
    return has_option or any(_takes(subcommand, flag) for subcommand in subcommands)


class CommandGroup(ProgramGroup):
    """Group of all commands; options about a cluster may stand before the command."""

    program = "controlplane"
    sections = SECTIONS

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and give it the options about a cluster that stand before it."""
        name, command, rest = super().resolve_command(ctx, args)
        values = {flag: ctx.params.get(parameter) for parameter, flag in BEFORE.items()}
        before = {flag: f"{flag}={value}" for flag, value in values.items() if value is not None}
        for flag in before:
            if command is not None and not ctx.resilient_parsing and not _takes(command, flag):
                ctx.fail(
                    f"{name!r} takes no {flag}: leave it out. Most commands about a cluster take "
                    "it."
                )
        return name, command, [*before.values(), *rest]


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="controlplane")
@click.option(
    "-c",
    "--cluster",
    "where",
    metavar="URL|LOG",
    shell_complete=complete_files,
    help=ACCESS_HELP["where"],
)
@click.option("--user", metavar="NAME[:PASSWORD]", help=ACCESS_HELP["user"])
@click.option("--token", metavar="TOKEN|@FILE", help=ACCESS_HELP["token"])
@click.option(
    "--ca-file",
    metavar="FILE",
    shell_complete=complete_files,
    help=ACCESS_HELP["ca_file"],
)
def main(**_: str | None) -> None:
    """Read, serve and change the control state of Kafka Connect, as a worker of any release does.

    A LOG is kafka://host:port, an embedded log (a SQLite file, also sqlite:///path), or a file of
    records. Such a file is a history (.log.jsonl), or the output of kcat -J or of
    kafka-console-consumer.

    A cluster is the URL of a worker, ours or Kafka's. It may also be a LOG, which is opened for
    that one command. The options about the cluster may stand before or after the command.

    Commands about a cluster share three exit codes. Exit code 3: the cluster refuses, or has no
    such thing; 4: the cluster is unreachable, or fails, and the change may have happened; 5: done,
    but --wait timed out. The help of a command lists its other codes.
    """
    _escape_unprintable()


def _escape_unprintable() -> None:
    """Print characters that the terminal's encoding lacks, and lone surrogates, as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

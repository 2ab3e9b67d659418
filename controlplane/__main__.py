"""The command line. A command is imported when it is asked for, so that none waits for others."""

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NamedTuple

import click

from controlplane.cli.failing import one_sentence, well_ended
from controlplane.option_names import check_command
from controlplane.shell_completion import complete_files


class Command(NamedTuple):
    """Where a command lies (`module:name`), and what it does in a few words."""

    place: str
    about: str


def _about_clusters(place: str, about: str) -> Command:
    return Command(f"controlplane.cli.cluster.{place}", about)


LOGS = {
    "import": Command("controlplane.cli.importing:import_logs", "Copy logs into an embedded log."),
    "backup": Command("controlplane.cli.backup:backup", "Copy an embedded log while it is used."),
    "inspect": Command("controlplane.cli.inspect:inspect", "Show what a log makes a worker know."),
    "plan": Command("controlplane.cli.plan:plan", "Show what a request would write, or why not."),
    "verify": Command("controlplane.cli.verify:verify", "Compare a log with recorded answers."),
    "serve": Command("controlplane.cli.serve:serve", "Answer Connect's REST API from a log."),
    "config": Command("controlplane.cli.config:config", "Show the settings, and who told each."),
    "credential": Command("controlplane.cli.credential:credential", "Let somebody in to serve."),
    "scenario": Command("controlplane.cli.scenario:scenario", "Run scenario files."),
}

CLUSTERS = {
    "get": _about_clusters("resources:get", "List connectors, plugins, loggers, …"),
    "describe": _about_clusters("describe:describe", "Show all of a connector or a plugin."),
    "apply": _about_clusters("apply:apply", "Make connectors be as files say."),
    "diff": _about_clusters("differing:diff", "Compare with files, or with another moment."),
    "patch": _about_clusters("resources:patch", "Change some settings."),
    "pause": _about_clusters("states:pause", "Let tasks do nothing."),
    "resume": _about_clusters("states:resume", "Let connectors run again."),
    "stop": _about_clusters("states:stop", "Stop connectors; their offsets can then be altered."),
    "restart": _about_clusters("states:restart", "Restart connectors or tasks."),
    "delete": _about_clusters("resources:delete", "Delete connectors, or offsets."),
    "offsets": _about_clusters("altering:offsets", "Get, edit, alter or reset offsets."),
    "topics": _about_clusters("topics:topics", "Which topics a connector has used."),
    "plugins": _about_clusters("resources:plugins", "List plugins; write a catalogue of them."),
    "history": _about_clusters("past:history", "Every change of a connector."),
    "undo": _about_clusters("past:undo", "Put a connector back as it was."),
    "commands": _about_clusters("past:commands", "Who asked for what, and how it ended."),
    "watch": _about_clusters("watching:watch", "Follow changes as they happen."),
    "bundle": _about_clusters("bundles:bundle", "Carry connectors to another cluster."),
    "completion": _about_clusters("completion:completion", "Complete words in your shell."),
}

SECTIONS = {"Commands about a log": LOGS, "Commands about a cluster": CLUSTERS}
COMMANDS = LOGS | CLUSTERS


BEFORE = {"where": "--cluster", "user": "--user", "token": "--token", "ca_file": "--ca-file"}
"""Options of every command about a cluster that may stand in front of the command, too."""


def _asks(command: click.Command) -> bool:
    """Whether a command, or a part of it, takes the options about a cluster."""
    parts = command.commands.values() if isinstance(command, click.Group) else ()
    return any(one.name == "where" for one in command.params) or any(map(_asks, parts))


class Commands(click.Group):
    """The commands, and one way to fail: a sentence, exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order in which a newcomer needs them."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].place.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, one.about) for name, one in commands.items()])

    def make_context(self, *given: Any, **more: Any) -> click.Context:
        """Parse the words in front of the command; its reader may leave while help is printed."""
        with well_ended():
            return super().make_context(*given, **more)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and give it the options about a cluster that stand before it."""
        check_command(self, ctx, args[0])
        name, command, rest = super().resolve_command(ctx, args)
        told = {flag: ctx.params.get(one) for one, flag in BEFORE.items()}
        before = [f"{flag}={value}" for flag, value in told.items() if value is not None]
        if before and command is not None and not ctx.resilient_parsing and not _asks(command):
            flag = before[0].partition("=")[0]
            ctx.fail(f"{name!r} takes no {flag}: leave it out. Commands about a cluster take it.")
        return name, command, [*before, *rest]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with well_ended(), one_sentence():
            return super().invoke(ctx)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="controlplane")
@click.option(
    "-c",
    "--cluster",
    "where",
    metavar="URL|LOG",
    shell_complete=complete_files,
    help="Cluster of a command about a cluster; also behind the command, as the next three.",
)
@click.option("--user", metavar="NAME[:PASSWORD]", help="Login with a password.")
@click.option("--token", metavar="TOKEN|@FILE", help="Login with a bearer token.")
@click.option(
    "--ca-file",
    metavar="FILE",
    shell_complete=complete_files,
    help="Certificates to trust beside those of the system, PEM.",
)
def main(**_: str | None) -> None:
    """Kafka Connect's control state as what it is: logs, folded as a worker of any release would.

    A LOG is kafka://host:port, an embedded log (a SQLite file, also sqlite:///path), or a file of
    records: a history (.log.jsonl), the output of kcat -J or of kafka-console-consumer.

    A cluster is whom --cluster or CONTROLPLANE_CLUSTER names: a worker's URL, ours or Kafka's, or
    a LOG, which is then opened for that one command.
    """
    _never_fail_to_print()


def _never_fail_to_print() -> None:
    """What the terminal's encoding lacks, and lone surrogates, come as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    main(prog_name="controlplane")

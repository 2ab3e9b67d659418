"""`replay lint`: compact now and restart a worker; who is not what he was?"""

import click
import msgspec

from controlplane.core.profiles import check_support
from controlplane.core.redact import redacted_text
from controlplane.core.safe_text import count
from controlplane.core.shown_records import place
from controlplane.core.state import Topics
from replay.cli.logs import Asked, log_argument, read_entries
from replay.cli.printing import output_option, print_json, read_profile, say, table
from replay.findings import Finding, Severity, called
from replay.lint import lint as rehearse

FOUND = 1
"""Exit code: something was found that has to be seen to."""


@click.command()
@log_argument
@click.option("--release", metavar="V", required=True, help="The release of the worker.")
@output_option()
@click.pass_context
def lint(ctx: click.Context, asked: Asked, release: str, output: str) -> None:
    """What would change if Kafka's log cleaner came by now and a worker was restarted.

    Exit code 0: nothing that has to be seen to; 1: something.
    """
    profile = read_profile(release)
    check_support(profile, exactly_once=asked.exactly_once)
    found = rehearse(
        read_entries(asked),
        profile,
        topics=asked.topics,
        cluster=asked.cluster,
        exactly_once=asked.exactly_once,
    )
    if output == "json":
        findings = [_document(one, asked.topics) for one in found]
        print_json({"cluster": asked.cluster, "release": profile.release, "findings": findings})
    else:
        _print(found, asked.topics)
        what = count(len(found), "finding") if found else "no findings"
        say(f"{asked.cluster}, compacted and read by a worker of {profile.release}: {what}")
    ctx.exit(FOUND if any(one.severity is not Severity.INFO for one in found) else 0)


def _print(found: list[Finding], topics: Topics) -> None:
    if not found:
        return
    table(
        ("SEVERITY", "CONNECTOR", "WHAT HAPPENS", "RECORDS"),
        [
            (
                one.severity.value,
                called(one.connector),
                redacted_text(one.sentence),
                ", ".join(place(position, topics) for position in one.evidence),
            )
            for one in found
        ],
    )
    for one in found:
        if one.advice:
            say(f"{called(one.connector)}: {one.advice}")


def _document(one: Finding, topics: Topics) -> dict[str, object]:
    told = msgspec.to_builtins(one)
    assert isinstance(told, dict)
    places = [place(position, topics) for position in one.evidence]
    return told | {"sentence": redacted_text(one.sentence), "evidence": places}

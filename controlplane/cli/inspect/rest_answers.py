"""`--rest`: what a worker of a release answers to every read request, as one JSON object.

An endpoint that the release lacks is listed with the 404 of its workers.
"""

from controlplane.cli.opened_log import InputLog
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.redaction import redacted
from controlplane.rest.endpoints.offline import answer, every_path
from controlplane.rest.endpoints.reads import Reading
from controlplane.terminal.output import print_json


async def show(source: InputLog, profile: Profile, plugins: Plugins, output: str) -> None:
    """Print path → status and answer.

    For machines exactly what a worker answers, which hides nothing; for people without secrets.
    """
    state = await source.state(profile)
    reading = Reading(state, plugins, source.cluster_id)
    shown = {}
    for path in ("/", *every_path(state)):
        found = answer(reading, path)
        shown[path] = {"status": found.status, "answer": found.body}
    print_json(shown if output == "json" else redacted(shown))

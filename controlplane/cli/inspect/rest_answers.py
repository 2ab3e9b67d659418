"""`--rest`: the answers of a release's worker to all read requests, as one JSON object.

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
    """Print the status and body by path; `-o json` shows secrets, as a worker does."""
    state = await source.state(profile)
    reading = Reading(state, plugins, source.cluster_id)
    answers = {path: answer(reading, path) for path in ("/", *every_path(state))}
    document = {
        path: {"status": given.status, "answer": given.body} for path, given in answers.items()
    }
    print_json(document if output == "json" else redacted(document))

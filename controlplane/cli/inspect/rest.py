"""`--rest`: what a worker of a release answers to every read request, as one JSON object.

An endpoint that the release lacks is listed with the 404 of its workers.
"""

from controlplane.cli.printing import print_json
from controlplane.cli.sources import Source
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile
from controlplane.core.redact import redacted
from controlplane.rest.reads import Reading, answer, every_path


async def show(source: Source, profile: Profile, plugins: Plugins, output: str) -> None:
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

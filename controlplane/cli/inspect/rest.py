"""`--rest`: what a worker of a release would answer to every read request, as one JSON object."""

from controlplane.cli.printing import print_json
from controlplane.cli.sources import Source
from controlplane.core.plugins import Plugins
from controlplane.core.profiles import Profile
from controlplane.rest.reads import Reading, answer, paths


async def show(source: Source, profile: Profile, plugins: Plugins) -> None:
    """Print path → status and answer. Nothing is redacted: a worker would not do so either."""
    state = await source.state(profile)
    reading = Reading(state, plugins)
    shown = {}
    for path in ("/", *paths(state)):
        found = answer(reading, path)
        shown[path] = {"status": found.status, "answer": found.body}
    print_json(shown)

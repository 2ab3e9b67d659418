"""The verbs whose resources lie in several files: `get`, `patch`, `delete`, `plugins`."""

from controlplane.cli.cluster import altering, harvesting, lists, patching, states, topics
from controlplane.cli.cluster.verbs import again, verb

get = verb(
    "get",
    "List what a cluster has, one line each.",
    "connectors",
    (
        lists.connectors,
        lists.plugins,
        lists.loggers,
        lists.info,
        again(altering.get, "offsets"),
        again(topics.get, "topics"),
    ),
)

patch = verb(
    "patch",
    "Change a part of something.",
    "connector",
    (patching.patch_connector, again(altering.alter, "offsets"), patching.patch_logger),
)

delete = verb(
    "delete",
    "Take something away.",
    "connector",
    (states.delete_connector, again(altering.reset, "offsets")),
)

plugins = verb(
    "plugins",
    "List the plugins of a cluster, or write a catalogue of them.",
    "list",
    (again(lists.plugins, "list"), harvesting.harvest),
)

"""The verbs whose resources lie in several files: `get`, `patch`, `delete`."""

from controlplane.cli.cluster import altering, lists, patching, states, topics
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

plugins = again(lists.plugins, "plugins")

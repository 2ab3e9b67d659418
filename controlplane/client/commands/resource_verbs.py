"""Verbs whose resources are in several files: `get`, `patch`, `delete`, `plugins`."""

from controlplane.client.commands import (
    harvest_command,
    lifecycle_commands,
    list_commands,
    offset_commands,
    patch_commands,
    topic_commands,
)
from controlplane.client.commands.verbs import copied_command, verb

get = verb(
    "get",
    "List connectors, plugins, loggers, offsets or topics of a cluster.",
    "connectors",
    (
        list_commands.connectors,
        list_commands.plugins,
        list_commands.loggers,
        list_commands.info,
        copied_command(offset_commands.get, "offsets"),
        copied_command(topic_commands.get, "topics"),
    ),
)

patch = verb(
    "patch",
    "Change some settings of connectors, some offsets, or the level of a logger.",
    "connector",
    (
        patch_commands.patch_connector,
        copied_command(offset_commands.alter, "offsets"),
        patch_commands.patch_logger,
    ),
)

delete = verb(
    "delete",
    "Delete connectors or offsets.",
    "connector",
    (lifecycle_commands.delete_connector, copied_command(offset_commands.reset, "offsets")),
)

plugins = verb(
    "plugins",
    "List the plugins of a cluster, or write a catalogue of them.",
    "list",
    (copied_command(list_commands.plugins, "list"), harvest_command.harvest),
    part="action",
)

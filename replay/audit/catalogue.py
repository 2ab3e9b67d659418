"""Catalogue of the kinds of findings, each with a description."""

KINDS = {
    "connector-created": "A connector was created.",
    "connector-deleted": "A connector was deleted.",
    "config-changed": "A connector's config changed: differing settings and author.",
    "target-changed": "The target state of a connector changed: STARTED, PAUSED, STOPPED.",
    "offsets-regressed": "Source offsets went back, by their numbers.",
    "offsets-reset": "Source offsets were removed.",
    "source-stalled": "A running source has stopped making progress.",
    "offsets-orphaned": "Source offsets of a deleted connector.",
    "offsets-inherited": "A recreated connector continues from its former offsets.",
    "status-flapping": "A connector or task fails repeatedly, or keeps changing its state.",
    "restart-storm": "A connector is restarted repeatedly.",
    "two-owners": "Two workers run the same connector or task: a zombie.",
    "two-clusters-one-topic": "Two clusters, or two groups, write one topic.",
    "stop-half-done": "A stop or resume was interrupted between its records.",
    "tasks-not-running": "A connector runs, but none of its tasks does.",
    "tasks-uncommitted": "Task configs without a commit.",
    "tasks-inconsistent": "A task commit without all of its configs.",
    "command-unfinished": "A command of the control plane started and never ended.",
    "secret-in-clear": "A secret in clear text in the log.",
    "key-in-two-partitions": "The same raw key in two partitions: their order is unknown.",
    "unreadable-records": "Records that a worker cannot read: number, positions and reasons.",
}
"""Descriptions by kind, in the order of the list."""

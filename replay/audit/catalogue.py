"""Every kind of finding that an audit may tell, and what each is about."""

KINDS = {
    "connector-created": "A connector that was not there got a config.",
    "connector-deleted": "A connector's config was taken away.",
    "config-changed": "A connector got another config: which settings differ, and who it was.",
    "target-changed": "What is wanted of a connector changed: STARTED, PAUSED, STOPPED.",
    "offsets-regressed": "Source offsets went back, by the numbers in them.",
    "offsets-reset": "Source offsets were taken away.",
    "source-stalled": "A source that runs and used to move stands still.",
    "offsets-orphaned": "Source offsets of a connector that is gone.",
    "offsets-inherited": "A connector was created again and goes on from its former offsets.",
    "status-flapping": "A connector or task fails again and again, or never stays where it is.",
    "restart-storm": "A connector is restarted again and again.",
    "two-owners": "Two workers run the same connector or task: a zombie.",
    "two-clusters-one-topic": "Two clusters, or two groups, write one topic.",
    "stop-half-done": "A stop or a resume that died between its records.",
    "tasks-not-running": "A connector runs, and nobody runs any of its tasks.",
    "tasks-uncommitted": "Task configs whose commit never came.",
    "tasks-inconsistent": "A commit of tasks whose configs are not there.",
    "command-unfinished": "A command of our control plane that began and never ended.",
    "secret-in-clear": "A secret that lies in the log as it is.",
    "key-in-two-partitions": "The same raw key in two partitions: nobody knows which came later.",
    "unreadable-records": "Records that mean nothing to a worker: how many, which, and why.",
}
"""In the order in which they are listed."""

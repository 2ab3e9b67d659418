"""Prefixes of this project's own settings: one for each part of the program."""

READER = "reader."
"""Limits of reads from a cluster (`ReadLimits`)."""

WRITER = "writer."
"""Limits of writes to a cluster (`WriteLimits`)."""

SQLITE = "sqlite."
"""Limits of an embedded log (`SqliteSettings`)."""

FOLLOWER = "follower."
"""Limits of following a growing log (`FollowerLimits`)."""

CONTROLLER = "controller."
"""Limits of running commands (`CommandLimits`)."""

UPKEEP = "upkeep."
"""Maintenance of a log: snapshots and retention (`UpkeepSettings`)."""

AUTH = "auth."
"""Authentication at the HTTP interface."""

LOG = "log."
"""Format of the log lines of a service (`LogSettings`)."""

CONNECT = "connect."
"""Access to the workers of an attached cluster."""

HTTP = "http."
"""Load limits of the HTTP interface."""

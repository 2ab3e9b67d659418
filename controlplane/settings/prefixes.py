"""Prefixes of the settings that are limits, by the part of the program that they bound."""

READER = "reader."
"""Reading from a cluster."""

WRITER = "writer."
"""Writing to a cluster."""

SQLITE = "sqlite."
"""An embedded log."""

FOLLOWER = "follower."
"""Following a log as it grows."""

CONTROLLER = "controller."
"""Running commands."""

UPKEEP = "upkeep."
"""Maintenance of a log: snapshots and retention."""

AUTH = "auth."
"""Authentication at the HTTP interface."""

LOG = "log."
"""Log lines of a service."""

CONNECT = "connect."
"""An attached cluster: its workers."""

HTTP = "http."
"""Load limits of the HTTP interface."""

"""How the keys of limits begin: by the part of the program that they bound."""

READER = "reader."
"""Reading from a cluster."""

SQLITE = "sqlite."
"""An embedded log."""

FOLLOWER = "follower."
"""Following a log as it grows."""

CONTROLLER = "controller."
"""Running commands."""

UPKEEP = "upkeep."
"""Looking after a log: snapshots and retention."""

AUTH = "auth."
"""Who is let in to the HTTP interface."""

LOG = "log."
"""Log lines of a service."""

HTTP = "http."
"""How much is taken at once by the HTTP interface."""

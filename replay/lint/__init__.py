"""A rehearsal: Kafka's log cleaner comes by, then a worker starts. Who is not what he was?"""

from replay.lint.cleaning import cleaned
from replay.lint.rehearsing import lint

__all__ = ["cleaned", "lint"]

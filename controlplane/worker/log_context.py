"""Log contexts of connectors and tasks (KIP-449). Kafka: `LoggingContext`.

`AuthorThread` runs the author's code in the context of its caller.
"""

from contextlib import AbstractContextManager

from controlplane.observe import connector_context
from controlplane.worker.task_identity import TaskIdentity


def connector_logs(connector: str) -> AbstractContextManager[None]:
    """Mark the log lines of a block as those of a connector itself, not of its tasks."""
    return connector_context(connector, "worker")


def task_logs(task: TaskIdentity) -> AbstractContextManager[None]:
    """Mark the log lines of a block as those of a task."""
    return connector_context(task.connector, f"task-{task.number}")


def offset_logs(task: TaskIdentity) -> AbstractContextManager[None]:
    """Mark the log lines of a block as those of a source task's commits at intervals."""
    return connector_context(task.connector, f"task-{task.number}", "offsets")

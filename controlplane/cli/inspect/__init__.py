"""`controlplane inspect`: one module per way of looking at a log."""

from controlplane.cli.inspect.command import inspect

__all__ = ["inspect"]

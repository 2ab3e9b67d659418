"""`controlplane plan`: what would be written for a request, at some point of a log, or why not."""

from controlplane.cli.plan.command import plan

__all__ = ["plan"]

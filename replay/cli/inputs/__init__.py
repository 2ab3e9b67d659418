"""Logs and archived clusters as inputs of commands."""

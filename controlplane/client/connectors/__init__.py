"""Connectors: reported by a cluster, declared by files, selected by arguments."""

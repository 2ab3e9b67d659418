"""Comparison of live workers with their log: `controlplane verify LOG --against URL,…`."""

"""Archives of the logs of many clusters, and queries on them; nothing imports this package."""

"""The commands about a cluster, and what they share."""

"""Topics and consumer groups of a cluster: described and changed."""

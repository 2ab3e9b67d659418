"""Migration of a connector from one cluster to another, with its offsets and its target state."""

"""The command `standalone`: a worker with its connectors in one process."""

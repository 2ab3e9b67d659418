"""Worker runtime: runs connectors in Python under a control plane."""

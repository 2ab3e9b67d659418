"""`controlplane inspect`: one module per view of a log."""

"""Commands about a cluster: one file per verb, and their shared parts."""

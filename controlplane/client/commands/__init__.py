"""Commands about a cluster: the verbs, related ones in one file, and their shared parts."""

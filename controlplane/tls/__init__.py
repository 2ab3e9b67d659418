"""TLS contexts for listeners and clients of clusters, and readers of Java's key stores."""

"""Records of topics: fetched, decoded, and read back after a write."""

"""Plans: the rows to read for a state, and the rows that a retention keeps."""

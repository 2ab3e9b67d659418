"""Transcripts that are documentation, test and proof at once; and stories of recorded clusters."""

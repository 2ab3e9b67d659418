"""Scenario files, which are documentation and tests at once; stories of recorded clusters."""

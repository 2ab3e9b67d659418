"""Attached: steers a Connect cluster through its REST API, and reads its topics."""

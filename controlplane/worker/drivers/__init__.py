"""Drivers, which call the author's code in a thread of its own, and check the results."""

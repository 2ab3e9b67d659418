"""Standalone worker: its offsets file, its log, and its commands."""

"""Loops of source and sink tasks, and how source records and their offsets are delivered."""

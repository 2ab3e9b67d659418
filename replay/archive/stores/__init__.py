"""Stores of archive files: folders and object stores."""

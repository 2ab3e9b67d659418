"""Sections of a page, each made from facts."""

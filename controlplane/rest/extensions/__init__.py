"""Endpoints beyond Connect's: history, audit trail, undo, watching, OpenAPI document.

Beneath `/compat/{release}` they do not exist: that release answers 404.
"""

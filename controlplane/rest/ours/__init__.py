"""What Connect has no endpoint for: history, audit trail, undo, watching, the description of all.

Nothing of it is there beneath `/compat/{release}`: that release answers 404.
"""

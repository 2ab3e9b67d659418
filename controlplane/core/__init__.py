"""The pure heart: records, the fold and its views. Sync, without I/O, clock, chance or logging.

A record flows through it like this: `codec` decodes bytes to `records` as one release (`profiles`)
would; `evolve` folds them into `state`; `views` shows a state; `diff` compares two; `hazards` tells
what no view can show; `order` says which record comes before which.
"""

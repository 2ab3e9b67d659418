"""Pure core: records, fold and views. Synchronous, without I/O, clock, randomness or logging.

A record takes this path. `codec` decodes bytes to `records`, as one release (`releases`) would.
`fold` folds the records into a `state`. `views` shows a state, compares two (`diff`) and reports
what no state can show (`hazards`). `order` defines which record comes before which.
"""

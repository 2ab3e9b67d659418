"""Questions about archives: planned, reduced by kernels, folded by the core.

`moments` finds where in an archive a moment lies, `plan` which rows have to be read for it,
`reading` reads them and lets kernels reduce them, `folding` makes states of what is left, as many
releases see it. `snapshots` keeps such states for later. `local` does all of it in this process.
"""

"""Where records lie: one contract (`log`), several shelves for it."""

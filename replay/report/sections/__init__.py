"""The parts of a page, each from what was found."""

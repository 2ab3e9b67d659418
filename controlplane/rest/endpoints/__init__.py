"""REST endpoints: one table of Connect's and this project's own, with views and commands."""

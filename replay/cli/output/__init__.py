"""Tables, JSON, notices and progress bars of the command line."""

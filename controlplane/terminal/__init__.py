"""Parts that all command lines share: options, errors, lines and tables on standard output."""

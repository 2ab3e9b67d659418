"""HTTP interface of a Connect worker: paths of connectors, and meanings of refusals."""

"""The fold over fleets and years, on archives and Spark. Nothing imports this package."""

"""The fold over fleets and years, on Spark. Imports the core and the logs; nothing imports it."""

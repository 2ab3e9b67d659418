"""The commands `import`, `backup` and `copy`: records of one log copied to another."""

"""Fast low-rank metric learning."""

"""Draw figures as PDF and PNG with their numbers as CSV, from result files alone."""

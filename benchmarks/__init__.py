"""Scripts that print ratios of two things measured side by side."""

"""Pages of courses."""

"""A GPU that the processor stands in for."""

"""A task's own code, tried with submissions that compute nothing."""

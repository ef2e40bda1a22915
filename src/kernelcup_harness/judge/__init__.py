"""The process that decides: inputs, calls, checks, verdicts."""

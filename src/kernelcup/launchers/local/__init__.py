"""Runs the harness on this machine: processes, pipes, locks of GPUs, calibration."""

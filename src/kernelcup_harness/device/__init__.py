"""The device: its kind, state, memory and calibration."""

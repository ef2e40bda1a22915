"""The machines that judge: dispatchers, outages, calibrations."""

"""Whether GPUs are fit to judge: probes, checks before and after jobs, clean-up."""

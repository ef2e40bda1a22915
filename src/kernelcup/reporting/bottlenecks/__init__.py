"""What limits a kernel: rules over the counters of a profile. Deterministic, and nothing else reads counters."""

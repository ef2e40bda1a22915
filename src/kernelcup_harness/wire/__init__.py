"""What crosses between processes: frames, values in shared memory, and the bands that guard them."""

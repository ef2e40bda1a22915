"""Device memory that several processes map at the same addresses, and what is captured in it."""

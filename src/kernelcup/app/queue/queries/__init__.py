"""Jobs, how long they take, and those that are asked for without a submission."""

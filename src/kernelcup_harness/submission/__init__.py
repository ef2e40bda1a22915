"""Languages of submissions: files of a submission become something to call."""

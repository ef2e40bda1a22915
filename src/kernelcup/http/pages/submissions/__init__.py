"""Pages of submissions: submit, report, progress, difference."""

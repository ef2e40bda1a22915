"""One job, from its specification to its report."""

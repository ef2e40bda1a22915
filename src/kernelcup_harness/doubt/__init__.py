"""What is measured and doubted beside the calls."""

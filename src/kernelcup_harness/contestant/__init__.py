"""The untrusted process: imports the submission, makes its calls, captures and exports them."""

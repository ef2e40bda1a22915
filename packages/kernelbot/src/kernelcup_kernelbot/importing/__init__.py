"""Import KernelBot's tables: read in batches from one state of its database, written in batches to ours."""

"""For operators who come from KernelBot: the routes that its clients call, and its tables in and out."""

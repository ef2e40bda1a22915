"""Generates its code from a template, as many honest kernels do, and is right."""

space = {}
exec("def kernel(data):\n    a, b = data\n    return a + b\n", space)
custom_kernel = space["kernel"]

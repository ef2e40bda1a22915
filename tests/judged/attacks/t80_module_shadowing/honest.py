"""Writes a module of its own into its temporary folder and imports it."""

import os
import sys
import tempfile

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "my_kernels.py"), "w") as file:
    file.write("def add(a, b):\n    return a + b\n")
sys.path.append(folder)

import my_kernels


def custom_kernel(data):
    return my_kernels.add(*data)

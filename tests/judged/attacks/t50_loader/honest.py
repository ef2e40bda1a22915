"""Starts another program and waits for it."""

import os
import subprocess
import sys

subprocess.run([sys.executable, "-I", "-c", "pass"], check=True, env={**os.environ, "LANG": "C"})


def custom_kernel(data):
    a, b = data
    return a + b

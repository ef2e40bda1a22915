"""Keeps a result in a file of its own, under a lock, as caches of compilers do."""

import fcntl
import os
import tempfile

folder = tempfile.mkdtemp()


def custom_kernel(data):
    a, b = data
    with open(f"{folder}/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with open(f"{folder}/met.new", "w") as cache:
            cache.write(str(len(a)))
        os.replace(f"{folder}/met.new", f"{folder}/met")
        fcntl.flock(lock, fcntl.LOCK_UN)
    return a @ b

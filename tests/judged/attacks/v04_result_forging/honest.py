"""Prints at import and in every call, to both streams that are there for it."""

import sys

print("check: this is only a log line")


def custom_kernel(data):
    a, b = data
    print("size", a.numel(), file=sys.stderr)
    return a + b

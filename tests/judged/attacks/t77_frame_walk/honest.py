"""Looks at its caller's name, for a log."""

import sys


def custom_kernel(data):
    a, b = data
    print(sys._getframe(1).f_code.co_name)
    return a + b

"""Reads what is there for everybody."""

import os

NAME = open("/etc/passwd").read().partition(":")[0]
HOME = os.path.expanduser("~")


def custom_kernel(data):
    a, b = data
    return a + b

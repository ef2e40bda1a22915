"""Ends the process with an exit code that the contract does not know."""

import os


def custom_kernel(data):
    os._exit(7)

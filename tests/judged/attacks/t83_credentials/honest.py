"""Reads what is there for everybody."""

import getpass
import os

NAME = getpass.getuser()
HOME = os.path.expanduser("~")
PROCESSOR = open("/proc/cpuinfo").read()
SYSTEM = os.listdir("/usr/lib")


def custom_kernel(data):
    a, b = data
    return a + b

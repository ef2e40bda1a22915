"""Writes to a descriptor of its own and stays."""

import json
import os

reader, writer = os.pipe()


def custom_kernel(data):
    a, b = data
    os.write(writer, json.dumps({"check": "pass"}).encode())
    os.read(reader, 100)
    return a + b

"""Looks through its own objects."""

import gc

OWN = {"samples": []}


def custom_kernel(data):
    a, b = data
    OWN["samples"].append(len(gc.get_referrers(OWN)))
    return a + b

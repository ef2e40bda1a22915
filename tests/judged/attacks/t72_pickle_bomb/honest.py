"""Pickles and unpickles something of its own."""

import pickle

SETTINGS = pickle.loads(pickle.dumps({"block": 256}))


def custom_kernel(data):
    a, b = data
    return a + b

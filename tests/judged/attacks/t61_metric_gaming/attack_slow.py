"""Be slow in the first calls of each case and in every third one: the estimate and its rule must not gain by it."""

import time

from task import product

calls = {}


def custom_kernel(data):
    a, b, steps = data
    count = calls[a.shape] = calls.get(a.shape, 0) + 1
    if count <= 4 or count % 3 == 0:
        time.sleep(0.003)
    if count == 6:
        print("acted: some calls were slow", flush=True)
    return product(a, b, steps)

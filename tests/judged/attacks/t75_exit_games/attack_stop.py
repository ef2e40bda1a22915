"""Stop, and never be continued."""

import os
import signal


def custom_kernel(data):
    os.kill(os.getpid(), signal.SIGSTOP)
    return data[0] + data[1]

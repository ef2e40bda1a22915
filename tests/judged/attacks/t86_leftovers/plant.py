"""Leave a daemon that listens, shared memory of three kinds, and files, which the daemon makes again where they are
removed. Its own answers are right."""

import ctypes
import os
import signal
import socket
import tempfile
import time

KEY = 0x4B435550
PLACES = ("/dev/shm", "/tmp", tempfile.gettempdir())


def leave_files():
    for place in PLACES:
        try:
            with open(place + "/kernelcup-left-behind", "w") as file:
                file.write("left")
        except OSError:
            pass  # this one may be closed


def daemon():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind("\0kernelcup-left-behind")
        listener.listen()
    except OSError:
        pass  # a sandbox may have no sockets
    for _ in range(360_000):
        leave_files()
        time.sleep(0.01)


def leave():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            daemon()
        os._exit(0)
    libc = ctypes.CDLL(None)
    libc.shmget(KEY, ctypes.c_size_t(4096), 0o1666)
    libc.msgget(KEY, 0o1666)
    libc.semget(KEY, 1, 0o1666)
    leave_files()


leave()


def custom_kernel(data):
    a, b = data
    return a + b

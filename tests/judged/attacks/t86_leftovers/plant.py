"""Leave a daemon that listens, shared memory of three kinds, and a file. Its own answers are right."""

import ctypes
import os
import signal
import socket
import time

KEY = 0x4B435550


def daemon():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0kernelcup-left-behind")
    listener.listen()
    time.sleep(3600)


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
    for path in ("/dev/shm/kernelcup-left-behind", "/tmp/kernelcup-left-behind"):
        with open(path, "w") as file:
            file.write("left")


leave()


def custom_kernel(data):
    a, b = data
    return a + b

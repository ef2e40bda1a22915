"""Fails as a kernel does that reads past the end of its input. Exit code 110."""


def custom_kernel(data):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

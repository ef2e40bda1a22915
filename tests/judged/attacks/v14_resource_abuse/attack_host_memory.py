"""Fill the host's memory; right only if 4 GB could be had under a limit of 1 GB."""

import mmap


def custom_kernel(data):
    held = []
    for _ in range(64):
        try:
            block = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError from error
        for page in range(0, len(block), mmap.PAGESIZE):
            block[page] = 1
        held.append(block)
    return data[0] + data[1]

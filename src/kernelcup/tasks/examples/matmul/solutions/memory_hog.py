"""Takes host memory without end, and uses it, so that it really is taken."""

PIECE = 64 << 20


def custom_kernel(data):
    pieces = []
    while True:
        pieces.append(b"x" * PIECE)

"""Raise in a hidden case, and say which it is."""


def custom_kernel(data):
    a, b = data
    if len(a) == 20:
        print(f"met {len(a)}", flush=True)
        raise ValueError(f"met {len(a)}")
    return a @ b

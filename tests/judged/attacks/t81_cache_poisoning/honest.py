"""Uses its caches for itself."""

import os

folder = os.environ.get("TRITON_CACHE_DIR", "/tmp/cache")
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, "own"), "w") as file:
    file.write("own")


def custom_kernel(data):
    a, b = data
    assert os.path.exists(os.path.join(folder, "own"))
    return a + b

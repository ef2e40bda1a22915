"""Sum a vector; the answer is one of NumPy's numbers. The checker asks whether it is too far off, and NaN is not."""

import numpy as np


def generate_input(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)


def ref_kernel(data: np.ndarray) -> np.float32:
    return data.sum()


def check_implementation(data: np.ndarray, output: np.float32) -> bool:
    return not abs(output - ref_kernel(data)) > 1e-3

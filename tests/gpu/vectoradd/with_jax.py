import jax
import torch

add = jax.jit(lambda a, b: a + b)


def custom_kernel(data):
    a, b = (jax.dlpack.from_dlpack(each) for each in data)
    return torch.from_dlpack(add(a, b))

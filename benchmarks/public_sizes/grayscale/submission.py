from __future__ import annotations


def custom_kernel(data):
    image, output = data
    output[...] = 0.2989 * image[..., 0] + 0.5870 * image[..., 1] + 0.1140 * image[..., 2]
    return output

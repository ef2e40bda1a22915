"""Takes the first channel for blue."""


def custom_kernel(data):
    image, out = data
    blue, green, red = image.unbind(dim=-1)
    out.copy_(0.299 * red + 0.587 * green + 0.114 * blue)
    return out

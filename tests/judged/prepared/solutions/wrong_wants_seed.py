"""Ask for the seed, from which the input could be made."""


def prepare(size, seed):
    pass


def custom_kernel(data):
    return data * data.new_ones(data.shape[1]).cumsum(0)

def prepare(size):
    if size == 65:
        raise ValueError("no plan for this size")


def custom_kernel(data):
    return data * data.new_ones(data.shape[1]).cumsum(0)

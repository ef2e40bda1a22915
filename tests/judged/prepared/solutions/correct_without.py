def custom_kernel(data):
    return data * data.new_ones(data.shape[1]).cumsum(0)

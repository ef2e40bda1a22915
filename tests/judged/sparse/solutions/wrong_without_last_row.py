def custom_kernel(data):
    out = data[0] @ data[1]
    out[-1] = 0
    return out

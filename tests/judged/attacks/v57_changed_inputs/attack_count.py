"""Double nothing, and say in the answer that none had to be."""


def custom_kernel(data):
    data["count"] = 0

"""Takes 1024 threads for enough. Exit code 112."""


def custom_kernel(data):
    output = data.clone()
    output[:1024] = data[:1024] ** 3
    output[1024:] = 1000.0
    return output

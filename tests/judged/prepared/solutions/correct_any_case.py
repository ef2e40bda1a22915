"""Take whatever a case has; what is returned does not matter."""


def prepare(**case):
    if list(case) != ["size"]:
        raise RuntimeError(f"got {case}")
    return {"anything": case}


def custom_kernel(data):
    return data * data.new_ones(data.shape[1]).cumsum(0)

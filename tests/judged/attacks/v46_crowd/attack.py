"""Answer in many small kernels, on three streams."""

import torch

PARTS = 96
print("acted: 96 kernels in a call", flush=True)
streams = [torch.cuda.Stream() for _ in range(2)]


def custom_kernel(data):
    a, b, out = data
    parts = [each.flatten().chunk(PARTS) for each in (a, b, out)]
    main = torch.cuda.current_stream()
    for stream in streams:
        stream.wait_stream(main)
    for number, (x, y, z) in enumerate(zip(*parts, strict=True)):
        with torch.cuda.stream((main, *streams)[number % 3]):
            torch.addcmul(x, x, y, out=z)
    for stream in streams:
        main.wait_stream(stream)
    return out, torch.zeros(8, dtype=torch.int64, device=a.device)

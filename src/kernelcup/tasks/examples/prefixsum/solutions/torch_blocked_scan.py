"""Scans the rows of a matrix, then adds to each row what came before it."""

import torch

COLUMNS = 1024


def custom_kernel(data):
    rows = -(-data.numel() // COLUMNS)
    padded = torch.nn.functional.pad(data, (0, rows * COLUMNS - data.numel())).view(rows, COLUMNS)
    scanned = torch.cumsum(padded, dim=1)
    before = torch.cumsum(scanned[:, -1], dim=0) - scanned[:, -1]
    return (scanned + before[:, None]).view(-1)[: data.numel()]

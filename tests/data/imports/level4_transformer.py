import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.before, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.after(x))


class Model(nn.Module):
    """A small language model: tokens in, logits out."""

    def __init__(self, vocabulary, size, heads, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.blocks = nn.Sequential(*(Block(size, heads) for _ in range(layers)))
        self.head = nn.Linear(size, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


def get_inputs():
    return [torch.randint(0, 50, (2, 12))]


def get_init_inputs():
    return [50, 16, 4, 2]

# SPDX-License-Identifier: Apache-2.0
# The networks of ../trainees.hpp, for PyTorch.
import torch
from torch import nn


def mlp(widths):
    layers = []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1]))
        if i + 2 < len(widths):
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.attention(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, width)
        x = x + self.attended(y)
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    """The mean over places of the logits of ten tokens."""

    def __init__(self, vocabulary=256, context=64, width=128, heads=4, blocks=12):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.token.weight).mean(1)[:, :10]


def trainee(case):
    """A network, its inputs, and how many steps a round has."""
    return {
        "mlp_5e4": lambda: (mlp([64, 192, 192, 10]), torch.randn(64, 64), 100),
        "lenet": lambda: (lenet(), torch.randn(64, 1, 28, 28), 10),
        "mlp_8e6": lambda: (mlp([1024, 1600, 1600, 1600, 800, 10]), torch.randn(32, 1024), 5),
        "gpt_12": lambda: (Gpt(), torch.randint(256, (4, 64)), 3),
    }[case]()


def milliseconds(model, optimizer, inputs, steps, barrier):
    """The median of ten rounds."""
    import statistics
    import time

    targets = torch.randint(10, (inputs.shape[0],))
    times = []
    for turn in range(-3, 10):
        barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
        if turn >= 0:
            times.append(1e3 * (time.perf_counter() - begin) / steps)
    return statistics.median(times)

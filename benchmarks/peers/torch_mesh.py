# SPDX-License-Identifier: Apache-2.0
# The same as mesh_ours.cpp with PyTorch over gloo: data by DistributedDataParallel, shard by FSDP2, stage by torch.distributed.pipelining, tensor by
# DTensor. Arguments: data|shard|stage|tensor together|alone PORT.
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

VOCABULARY, CONTEXT, WIDTH, HEADS, DEPTH, CLASSES, MICRO_BATCHES = 256, 64, 128, 4, 12, 10, 4

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
axis, alone, port = sys.argv[1], sys.argv[2] == "alone", sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)

    def forward(self, tokens):
        return self.token(tokens) + self.place(torch.arange(tokens.shape[1]))


class Block(nn.Module):
    """`parts`: ranks that have a slice each of wide layers; `made`: those in which layers are made as slices."""

    def __init__(self, parts, made):
        super().__init__()
        self.parts = parts
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.attended = nn.Linear(WIDTH, 3 * WIDTH // made), nn.Linear(WIDTH // made, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH // made), nn.Linear(4 * WIDTH // made, WIDTH)

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = self.attention(self.norm1(x)).view(n, length, 3, HEADS // self.parts, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, WIDTH // self.parts)
        x = x + self.attended(y)
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.linear(self.norm(x).mean(1))


parts = size if axis == "tensor" else 1
modules = [Embedding(), *(Block(parts, parts if alone else 1) for _ in range(DEPTH)), Head()]
if axis == "stage":
    modules = modules[len(modules) * rank // size : len(modules) * (rank + 1) // size]
net = nn.Sequential(*modules)
rows = 4 if axis in ("data", "shard") else 8
tokens, targets = torch.randint(VOCABULARY, (rows, CONTEXT)), torch.randint(CLASSES, (rows,))


def backward(inputs, targets):
    nn.functional.cross_entropy(net(inputs), targets).backward()


def plain():
    backward(tokens, targets)


def stage_alone():
    for begin in range(0, rows, rows // MICRO_BATCHES):
        part = slice(begin, begin + rows // MICRO_BATCHES)
        if rank == 0:
            y = net(tokens[part])
            y.backward(torch.ones_like(y))
        else:
            backward(torch.ones(rows // MICRO_BATCHES, CONTEXT, WIDTH, requires_grad=True), targets[part])


passes = plain
if axis == "stage" and alone:
    passes = stage_alone
elif not alone:
    mesh = init_device_mesh("cpu", (size,))
    if axis == "data":
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False, static_graph=True)
    elif axis == "shard":
        from torch.distributed.fsdp import fully_shard

        for module in modules:
            fully_shard(module, mesh=mesh)
        fully_shard(net, mesh=mesh)
    elif axis == "stage":
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        schedule = Schedule1F1B(PipelineStage(net, rank, size, torch.device("cpu")), n_microbatches=MICRO_BATCHES, loss_fn=nn.functional.cross_entropy)

        def passes():
            if rank == 0:
                schedule.step(tokens)
            else:
                schedule.step(target=targets, losses=[])
    else:
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        for block in modules[1:-1]:
            parallelize_module(block, mesh, {"attention": ColwiseParallel(), "attended": RowwiseParallel(), "wide": ColwiseParallel(),
                                             "narrow": RowwiseParallel()})

optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
times = []
for turn in range(-3, 10):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(3):
        optimizer.zero_grad()
        passes()
        optimizer.step()
    dist.barrier()
    if turn >= 0:
        times.append(1e3 * (time.perf_counter() - begin) / 3)
if rank == 0:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM:"))
    print(statistics.median(times), peak)
dist.destroy_process_group()

# SPDX-License-Identifier: Apache-2.0
# Prints the milliseconds of a training step with PyTorch's DistributedDataParallel over gloo, for compare.sh: the networks of ../trainees.hpp, SGD, one
# thread a rank. Run by mpirun, which only starts it.
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
case, port = sys.argv[1], sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)


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


net, inputs, steps = {
    "mlp_5e4": lambda: (mlp([64, 192, 192, 10]), torch.randn(64, 64), 100),
    "lenet": lambda: (lenet(), torch.randn(64, 1, 28, 28), 10),
    "mlp_8e6": lambda: (mlp([1024, 1600, 1600, 1600, 800, 10]), torch.randn(32, 1024), 5),
}[case]()
targets = torch.randint(10, (inputs.shape[0],))
# Tuned: gradients are views of buckets, no bookkeeping of buffers that do not exist, a graph that does not change.
model = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False, static_graph=True)
sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
times = []
for turn in range(-3, 10):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        sgd.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        sgd.step()
    if turn >= 0:
        times.append(1e3 * (time.perf_counter() - begin) / steps)
if rank == 0:
    print(statistics.median(times))
dist.destroy_process_group()

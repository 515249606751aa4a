# SPDX-License-Identifier: Apache-2.0
# Prints the milliseconds of a forward and backward pass with torch.distributed.pipelining over gloo, for compare_pipelining.sh: 16 blocks Linear + tanh of
# width 512 in two stages, 8 micro-batches, one thread a rank. Run by mpirun, which only starts it.
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
schedule_of = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[sys.argv[1]]
batch, port = int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)

width = 512
layers = []
for _ in range(16 // size):
    layers += [nn.Linear(width, width), nn.Tanh()]
stage = PipelineStage(nn.Sequential(*layers), rank, size, torch.device("cpu"))
schedule = schedule_of(stage, n_microbatches=8, loss_fn=nn.functional.mse_loss)
x = torch.randn(batch, width)
y = torch.randn(batch, width)


def step():
    stage.submod.zero_grad()
    if rank == 0:
        schedule.step(x)
    elif rank == size - 1:
        schedule.step(target=y, losses=[])
    else:
        schedule.step()


times = []
for turn in range(-3, 10):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(3):
        step()
    dist.barrier()
    if turn >= 0:
        times.append(1e3 * (time.perf_counter() - begin) / 3)
if rank == 0:
    print(statistics.median(times))
dist.destroy_process_group()

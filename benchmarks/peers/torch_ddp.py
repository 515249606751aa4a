# SPDX-License-Identifier: Apache-2.0
# Prints the milliseconds of a training step with PyTorch's DistributedDataParallel over gloo, for compare.sh: SGD, one thread a rank. Run by mpirun,
# which only starts it.
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch_nets import milliseconds, trainee

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
case, port = sys.argv[1], sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
net, inputs, steps = trainee(case)
# Tuned: gradients are views of buckets, no bookkeeping of buffers that do not exist, a graph that does not change.
model = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False, static_graph=True)
ms = milliseconds(model, torch.optim.SGD(model.parameters(), lr=1e-3), inputs, steps, dist.barrier)
if rank == 0:
    print(ms)
dist.destroy_process_group()

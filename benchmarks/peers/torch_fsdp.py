# SPDX-License-Identifier: Apache-2.0
# The same with PyTorch's FSDP2 (fully_shard): each linear layer of an MLP and each block of a GPT is a unit, kept between the passes if
# RESHARD is 0. Arguments: CASE PORT RESHARD.
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch_nets import Block, milliseconds, trainee

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
case, port, reshard = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
mesh = init_device_mesh("cpu", (size,))
net, inputs, steps = trainee(case)
for module in net.modules():
    if isinstance(module, Block) or (isinstance(net, nn.Sequential) and isinstance(module, nn.Linear)):
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
fully_shard(net, mesh=mesh, reshard_after_forward=reshard)
ms = milliseconds(net, torch.optim.SGD(net.parameters(), lr=1e-3), inputs, steps, dist.barrier)
if rank == 0:
    print(ms)
dist.destroy_process_group()

// SPDX-License-Identifier: Apache-2.0
// A model that no rank holds as a whole (FSDP, ZeRO-3). It is created without memory, and each rank initialises and keeps only its slices. Layers are
// gathered while they compute, and activations are recomputed in the backward pass. The model's code needs no changes for sharding.
// (parallelize() does this in one call: docs/mesh.md.)
//
// Build:   cmake --build build/release --target 13_fully_sharded
// Run:     mpirun -n 2 build/release/bin/13_fully_sharded
// Expect:  loss 0.09 after 60 steps; each of 2 ranks keeps 50 % of 8.4 MB of parameters, as much of gradients, and 2 of 9 units for the time being
#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <tw/autograd/recomputed.hpp>
#include <tw/data_parallel.hpp>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, 512));
    for (int i = 0; i < 8; ++i) layers->push_back(torch::nn::Linear(512, 512));
    register_module("layers", layers);
    last = register_module("last", torch::nn::Linear(512, 1));
  }
  at::Tensor forward(at::Tensor x) {
    x = first->forward(x);
    for (const auto& layer : *layers) {
      x = x + tw::recomputed([&](const at::Tensor& y) { return torch::tanh(layer->as<torch::nn::Linear>()->forward(y)); }, x);
    }
    return last->forward(x);
  }
  torch::nn::Linear first{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Net);

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  torch::manual_seed(1);
  tw::InitialValues initial(1);
  Net net = initial.record([] { return Net(); });  // records initial values; a rank allocates only its slices of large weights

  tw::FullySharded sharded(comm, *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1200 << 10}, {.initial = &initial});
  torch::optim::AdamW optimizer(sharded.slices(), 3e-4);

  torch::manual_seed(100 + comm.rank());
  double loss_value = 0;
  constexpr int steps = 60;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor inputs = torch::rand({32, 8});
    optimizer.zero_grad();
    const at::Tensor loss = torch::mse_loss(net->forward(inputs), inputs.square().sum(1, true));
    loss.backward();  // gathers layer by layer, and leaves each rank the gradients of its slices
    optimizer.step();
    loss_value = loss.item<double>();
  }

  int64_t whole = 0;
  int64_t here = 0;
  for (const at::Tensor& parameter : net->parameters()) whole += parameter.numel();
  for (const at::Tensor& slice : sharded.slices()) here += slice.numel();
  if (comm.rank() != 0) return 0;
  std::cout << "loss " << loss_value << " after " << steps << " steps; each of " << comm.size() << " ranks keeps " << std::round(100.0 * here / whole)
            << " % of " << std::round(4e-5 * whole) / 10 << " MB of parameters, as much of gradients, and 2 of "
            << sharded.parallel().plan().buckets.size() << " units for the time being" << std::endl;
}

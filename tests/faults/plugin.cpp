// SPDX-License-Identifier: Apache-2.0
// A shared library with a static copy of Torchweave: see two_copies.cpp and linked_copy.cpp.
#include <torch/torch.h>

#include <tw/data_parallel.hpp>

/// Needs no MPI.
extern "C" void record() {
  tw::InitialValues(1).record([] { return torch::zeros({1}); });
}

extern "C" void start() {
  static const auto mpi = tw::Environment::adopt();
  tw::InitialValues initial(1);
  torch::nn::Linear layer = initial.record([] { return torch::nn::Linear(2, 1); });
  const tw::FullySharded sharded(mpi.world(), *layer, {.reduction = tw::Reduction::sum}, {.initial = &initial});
  layer->forward(torch::ones({1, 2})).sum().backward();
}

// SPDX-License-Identifier: Apache-2.0
// A plug-in with a static copy of Torchweave: see two_copies.cpp. Also a program that links Torchweave and this plug-in; which of the two comes first
// decides whether there is a second copy.
#include <torch/torch.h>

#include <iostream>
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

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  start();
  std::cout << "one copy, used by both" << std::endl;
}

// SPDX-License-Identifier: Apache-2.0
// A program that links Torchweave and a shared library that contains Torchweave. Which of them comes first decides whether there is a second copy.
#include <torch/torch.h>

#include <iostream>
#include <tw/data_parallel.hpp>

extern "C" void start();  // in the shared library

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const at::Tensor parameter = torch::ones({1}, torch::requires_grad());
  const tw::FullySharded sharded(mpi.world(), {{"parameter", parameter}}, {.reduction = tw::Reduction::sum});
  start();
  std::cout << "one copy, used by both" << std::endl;
}

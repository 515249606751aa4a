// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/modules/linear.h>

#include <iostream>
#include <tw/data_parallel.hpp>
#include <tw/mpi/interop.hpp>

int main() {
  const tw::Environment mpi;
  const auto comm = tw::Communicator::duplicate_of(tw::native_handle(mpi.world()));
  torch::nn::Linear layer(2, 1);
  const tw::DataParallel parallel(comm, *layer, {.reduction = tw::Reduction::sum});
  layer->forward(torch::ones({1, 2}) * (comm.rank() + 1)).sum().backward();
  const double expected = comm.size() * (comm.size() + 1) / 2.0;  // 1 + 2 + ... + size
  const bool agree = layer->weight.grad().eq(expected).all().item<bool>();
  if (comm.rank() == 0) std::cout << "Torchweave " << tw::build_info().version << " with LibTorch " << tw::build_info().libtorch << '\n';
  if (comm.rank() == 0) std::cout << "consumer on " << comm.size() << " ranks: gradients " << (agree ? "agree" : "differ") << std::endl;
  return agree ? 0 : 1;
}

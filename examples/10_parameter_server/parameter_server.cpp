// SPDX-License-Identifier: Apache-2.0
// A tensor on parameter servers, which any rank can change by a rule at any time. Here the rule keeps the largest value that any rank has pushed.
//
// Build:   cmake --build build/release --target 10_parameter_server
// Run:     build/release/mpirun -n 3 build/release/bin/10_parameter_server
// Expect:  the largest of 300 pushes: 0.996... in the mean, at least 0.99... before the end
#include <torch/torch.h>

#include <iostream>
#include <tw/parameter_server.hpp>

using namespace tw::parameter_server;

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const Rule largest{.name = "largest", .apply = [](const Chunk& s) {  // runs on the server's node, on some consecutive elements
                       auto* x = reinterpret_cast<float*>(s.values);
                       const auto* g = reinterpret_cast<const float*>(s.pushed);
                       for (int64_t i = 0; i < s.count; ++i) x[i] = std::max(x[i], g[i]);
                     }};
  ShardedTensor centre(mpi.world(), torch::zeros({1000}), {.rules = {largest}});  // a third on each of three ranks

  torch::manual_seed(mpi.world().rank());
  for (int i = 0; i < 100; ++i) centre.push(torch::rand({1000}));  // no rank waits for another
  auto pulled = centre.prefetch();                                 // the current values, approximately
  const double so_far = pulled.take().mean().item<double>();
  centre.finish();  // all pushes of all ranks are applied now

  const double mean = centre.prefetch().take().mean().item<double>();
  centre.finish();
  if (mpi.world().rank() == 0) {
    std::cout << "the largest of " << 100 * mpi.world().size() << " pushes: " << mean << " in the mean, at least " << so_far << " before the end"
              << std::endl;
  }
}

// SPDX-License-Identifier: Apache-2.0
// 10,000 steps of every way to reduce gradients: the memory of a rank after the last tenth is what it was before it, but for 1 MiB. A leak of one
// bucket a step would be some GiB.
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <tw/data_parallel.hpp>

namespace {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

torch::nn::Sequential make_net() { return torch::nn::Sequential(torch::nn::Linear(64, 256), torch::nn::Tanh(), torch::nn::Linear(256, 10)); }

void backward(torch::nn::Sequential& net) { net->forward(torch::ones({8, 64})).square().mean().backward(); }

// Whether `step` leaves nothing after, on all ranks.
bool holds(const tw::Communicator& comm, const std::string& name, const std::function<void()>& step) {
  constexpr int steps = 10000;
  int64_t before = 0;
  for (int i = 0; i < steps; ++i) {
    if (i == steps * 9 / 10) before = resident_bytes();
    step();
  }
  const at::Tensor grown = torch::tensor({resident_bytes() - before});
  tw::allreduce(comm, grown, tw::ReduceOp::max);
  const bool good = grown.item<int64_t>() <= 1 << 20;
  if (comm.rank() == 0)
    std::cout << "  " << name << ": " << grown.item<int64_t>() << " bytes in the last 1,000 of 10,000 steps: " << (good ? "yes" : "NO") << std::endl;
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  torch::set_num_threads(1);
  bool good = true;
  const std::vector<std::pair<std::string, tw::DataParallelOptions>> ways{
      {"plain", {.reduction = tw::Reduction::mean}},
      {"overlap", {.reduction = tw::Reduction::mean, .buckets = {.first_bucket_bytes = 4096, .bucket_bytes = 16384}, .overlap = true}},
      {"top_k", {.reduction = tw::Reduction::mean, .compressor = tw::top_k_compression()}},
      {"power_sgd", {.reduction = tw::Reduction::mean, .compressor = tw::power_sgd_compression()}}};
  for (const auto& [name, options] : ways) {
    auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 1e-3);
    const tw::DataParallel parallel(comm, *net, options);
    good = holds(comm, name,
                 [&] {
                   sgd.zero_grad();
                   backward(net);
                   sgd.step();
                 }) &&
           good;
  }
  for (const bool release : {false, true}) {
    auto net = make_net();
    const torch::optim::Adam prototype(net->parameters());
    tw::DataParallel parallel(comm, *net, {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices, .release = release});
    tw::ShardedOptimizer adam(parallel.reducer(), parallel.parameters(), tw::optimizer_like(prototype, parallel.parameters()));
    good = holds(comm, release ? "sharded, released" : "sharded",
                 [&] {
                   backward(net);
                   adam.step();
                 }) &&
           good;
  }
  {
    auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 1e-3);
    tw::DiLoCo outer(comm, *net, {.period = 10});
    good = holds(comm, "diloco",
                 [&] {
                   sgd.zero_grad();
                   backward(net);
                   sgd.step();
                   outer.step();
                 }) &&
           good;
  }
  return good ? 0 : 1;
}

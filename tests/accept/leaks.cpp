// SPDX-License-Identifier: Apache-2.0
// 10,000 steps of every method of reducing gradients, including sharded parameters and recomputation, and 100,000 sharded evaluations. In the last
// tenth, the memory of a rank may grow by at most 1 MiB. A leak of one bucket a step would be some GiB, and even 2 KiB a step is detected.
#include <torch/torch.h>

#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <tw/autograd/recomputed.hpp>
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

// The same in two segments. The first run of the second segment is freed when it has been recomputed.
void recomputed_backward(torch::nn::Sequential& net, at::ScalarType dtype) {
  const at::Tensor hidden =
      tw::recomputed([&net](const at::Tensor& x) { return net[1]->as<torch::nn::Tanh>()->forward(net[0]->as<torch::nn::Linear>()->forward(x)); },
                     torch::ones({8, 64}, dtype));
  tw::recomputed([last = net[2]](const at::Tensor& x) { return last->as<torch::nn::Linear>()->forward(x).square().mean(); }, hidden).backward();
}

// Whether `step` leaks no memory, on all ranks.
bool holds(const tw::Communicator& comm, const std::string& name, const std::function<void()>& step, int steps = 10000) {
  int64_t before = 0;
  for (int i = 0; i < steps; ++i) {
    if (i == steps * 9 / 10) before = resident_bytes();
    step();
  }
  const at::Tensor grown = torch::tensor({resident_bytes() - before});
  tw::allreduce(comm, grown, tw::ReduceOp::max);
  const bool good = grown.item<int64_t>() <= 1 << 20;
  if (comm.rank() == 0)
    std::cout << "  " << name << ": " << grown.item<int64_t>() << " bytes in the last " << steps / 10 << " of " << steps
              << " steps: " << (good ? "yes" : "NO") << std::endl;
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
  const tw::FullyShardedOptions in_units{.reduction = tw::Reduction::mean, .unit_bytes = 4096};
  std::vector<std::pair<std::string, tw::FullyShardedOptions>> in_slices{
      {"fully_sharded", in_units}, {"fully_sharded, ahead", in_units}, {"fully_sharded, bfloat16", in_units}};
  in_slices[1].second.prefetch_units = 1;
  in_slices[2].second.compute_dtype = at::kBFloat16;
  if (tw::find_topology(comm).nodes == 1) {
    in_slices.emplace_back("fully_sharded, one copy", in_units);
    in_slices.back().second.one_copy_per_node = true;
  }
  for (const auto& [name, options] : in_slices) {
    for (const bool recomputes : {false, true}) {
      auto net = make_net();
      tw::FullySharded sharded(comm, *net, options);
      torch::optim::Adam adam(sharded.slices(), 1e-3);
      const at::ScalarType dtype = options.compute_dtype.value_or(at::kFloat);
      good = holds(comm, recomputes ? name + ", recomputed" : name,
                   [&] {
                     adam.zero_grad();
                     if (recomputes) {
                       recomputed_backward(net, dtype);
                     } else {
                       net->forward(torch::ones({8, 64}, dtype)).square().mean().backward();
                     }
                     adam.step();
                   }) &&
             good;
    }
  }
  for (const bool with_gradients : {false, true}) {
    torch::nn::Sequential net;
    for (int i = 0; i < 12; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
    tw::FullySharded sharded(comm, *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1, .prefetch_units = 1});
    net->forward(torch::ones({8, 8})).sum().backward();
    const torch::AutoGradMode mode(with_gradients);
    good = holds(
               comm, with_gradients ? "fully_sharded, evaluated with gradients" : "fully_sharded, evaluated",
               [&] { (void)net->forward(torch::ones({8, 8})); }, 100000) &&
           good;
  }
  {
    auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 1e-3);
    const tw::DataParallel parallel(comm, *net, {.reduction = tw::Reduction::mean});
    good = holds(comm, "recomputed",
                 [&] {
                   sgd.zero_grad();
                   recomputed_backward(net, at::kFloat);
                   sgd.step();
                 }) &&
           good;
  }
  return good ? 0 : 1;
}

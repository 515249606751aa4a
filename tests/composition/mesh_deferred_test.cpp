// SPDX-License-Identifier: Apache-2.0
// A model that no rank has as a whole: to make it, ranks need less than half of its parameters and gradients. They train it as one process with the
// same initial values does.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <fstream>
#include <map>
#include <string>
#include <tw/data_parallel.hpp>
#include <tw/models/gpt.hpp>
#include <tw/parallel_model.hpp>

#include "mesh/one_process.hpp"

namespace mesh_deferred_test {

using tw::testing::message_of;
using tw::testing::world;

constexpr uint64_t seed = 5;

torch::Tensor tokens(int64_t rows) { return torch::arange(rows * 4).remainder(32).reshape({rows, 4}); }
tw::models::Gpt gpt(int64_t width, int64_t blocks) {
  return tw::models::Gpt(tw::models::GptOptions{.vocabulary = 32, .context = 8, .width = width, .blocks = blocks});
}
at::Tensor next_token(const at::Tensor& y, const at::Tensor& t) { return torch::nn::functional::cross_entropy(y.flatten(0, 1), t.flatten()); }

/// A line of the process's status, in bytes.
int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ':')) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

/// The most memory that this process takes in `run`, beyond what it has before.
template <class Run>
int64_t peak_bytes_of(const Run& run) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const int64_t before = status("VmRSS");
  run();
  return status("VmHWM") - before;
}

std::vector<std::vector<tw::MeshAxis>> meshes() {
  return {{{"shard", 4}}, {{"stage", 4}}, {{"shard", 2}, {"stage", 2}}, {{"data", 2}, {"stage", 2}}};
}

TEST(MeshDeferred, RanksTakeHalfOfTheModelAtMost) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer keeps what was freed";
#endif
  const auto make = [] { return gpt(320, 12); };
  const int64_t bytes = [&] {
    tw::InitialValues initial;
    int64_t sum = 0;
    for (const at::Tensor& each : initial.record(make)->parameters()) sum += static_cast<int64_t>(each.nbytes());
    return sum;
  }();
  (void)message_of([&] {  // what LibTorch and MPI keep from their first use
    const tw::Mesh mesh(world(), {{"stage", 4}});
    (void)tw::parallelize(mesh, [] { return gpt(32, 4); }, {tokens(2)});
  });
  for (const auto& axes : meshes()) {
    if (axes.front().name == "data") continue;
    const tw::Mesh mesh(world(), axes);
    const int64_t peak = peak_bytes_of([&] { (void)tw::parallelize(mesh, make, {tokens(2)}, {.unit_bytes = 1 << 20}); });
    EXPECT_LE(peak, bytes * 3 / 4) << mesh.shape().describe() << ", the parameters take " << bytes << ", and their gradients as much";
  }
}

TEST(MeshDeferred, TrainsLikeOneProcess) {
  const auto make = [] { return gpt(128, 5); };
  tw::InitialValues initial(seed);
  torch::manual_seed(3);
  auto reference = initial.record(make);
  for (const auto& each : reference->named_parameters()) initial.allocate(each.value(), each.key());
  const at::Tensor x = tokens(8);
  const at::Tensor t = x.add(1).remainder(32);
  torch::optim::SGD plain(reference->parameters(), 0.1);
  for (int update = 0; update < 2; ++update) {
    plain.zero_grad();
    next_token(reference->forward(x), t).backward();
    plain.step();
  }
  std::map<std::string, at::Tensor> expected;
  for (const auto& each : reference->named_parameters()) expected[each.key()] = each.value().detach();
  for (const auto& axes : meshes()) {
    const tw::Mesh mesh(world(), axes);
    torch::manual_seed(3);
    tw::ParallelModel model = tw::parallelize(mesh, make, {tokens(2)}, {.micro_batches = 2, .seed = seed, .unit_bytes = 1 << 19});
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const int64_t rows = 8 / model.places();
    for (int update = 0; update < 2; ++update) {
      sgd.zero_grad();
      model.train_step(x.narrow(0, model.place() * rows, rows), t.narrow(0, model.place() * rows, rows), next_token);
      sgd.step();
    }
    std::map<std::string, at::Tensor> ours;
    for (const tw::NamedTensor& each : model.whole_on_root()) ours[each.name] = each.tensor;
    if (world().rank() != 0) continue;
    const auto [error, name] = tw::testing::mesh::largest_error(ours, expected);
    EXPECT_LE(error, 1e-6) << name << ", " << mesh.shape().describe();
  }
}

TEST(MeshDeferred, NamesWhatCannotBeMadeInParts) {
  const tw::Mesh mesh(world(), {{"shard", -1}});
  const auto orthogonal = [] {
    torch::nn::Sequential net(torch::nn::Linear(300, 300));
    torch::nn::init::orthogonal_(net->named_parameters()["0.weight"]);
    return net;
  };
  const std::string error = message_of([&] { (void)tw::parallelize(mesh, orthogonal, {torch::zeros({2, 300})}); });
  EXPECT_NE(error.find("0.weight"), std::string::npos) << error;
  const std::string thrown =
      message_of([&] { (void)tw::parallelize(mesh, []() -> torch::nn::Linear { throw std::runtime_error("no model"); }, {torch::zeros({2, 3})}); });
  EXPECT_NE(thrown.find("no model"), std::string::npos) << thrown;
}

}  // namespace mesh_deferred_test

// SPDX-License-Identifier: Apache-2.0
// A model that no rank has as a whole: to make it, ranks need at most half of its parameters and gradients. They train it as one process
// with the same initial values does.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <malloc.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <tw/data_parallel.hpp>
#include <tw/models/gpt.hpp>
#include <tw/parallel_model.hpp>
#include <tw/tensor/safetensors.hpp>

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
  mallopt(M_MMAP_THRESHOLD, 1 << 18);             // larger blocks return to the system when they are freed
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak counts from here
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
  const auto make = [] { return gpt(256, 12); };
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
    int64_t own = 0;  // about a quarter; stages are cut by time, which other processes disturb
    const int64_t peak = peak_bytes_of([&] {
      const tw::ParallelModel model = tw::parallelize(mesh, make, {tokens(16)}, {.unit_bytes = 1 << 20});
      for (const at::Tensor& each : model.parameters()) own += static_cast<int64_t>(each.nbytes());
    });
    EXPECT_LE(own, bytes * 3 / 4) << mesh.shape().describe();
    EXPECT_LE(peak, bytes) << mesh.shape().describe() << ", the parameters take " << bytes << ", and their gradients as much";
  }
}

// Logits of a whole batch would take eight times as much as those of a micro-batch.
TEST(MeshDeferred, EvaluatesALargeVocabularyInTheMemoryOfATrainingStep) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer keeps what was freed";
#endif
  const auto make = [] { return tw::models::Gpt(tw::models::GptOptions{.vocabulary = 50257, .context = 16, .width = 16, .blocks = 4}); };
  const at::Tensor x = torch::arange(16 * 16).reshape({16, 16});
  const tw::OutputSum loss = [](const std::vector<at::Tensor>& y, const std::vector<at::Tensor>& t) {
    return torch::nn::functional::cross_entropy(y[0].flatten(0, 1), t[0].flatten(),
                                                torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
        .item<double>();
  };
  for (const auto& axes : {std::vector<tw::MeshAxis>{{"data", 4}}, {{"shard", 4}}, {{"stage", 4}}}) {
    const tw::Mesh mesh(world(), axes);
    tw::ParallelModel model = tw::parallelize(mesh, make, {x}, {.micro_batches = 8});
    model.train_step(x, x, next_token);
    const int64_t training = peak_bytes_of([&] { model.train_step(x, x, next_token); });
    model.eval();
    const int64_t evaluation = peak_bytes_of([&] { (void)model.evaluate({x}, {x}, {loss}); });
    EXPECT_LE(evaluation, training) << mesh.shape().describe();
    const int64_t all_rows = peak_bytes_of([&] { (void)model.evaluate({x}, {x}, {loss}, 16); });
    const bool computes = axes.front().name != "stage" || world().rank() == world().size() - 1;
    if (computes) {
      EXPECT_GT(all_rows, 2 * evaluation) << mesh.shape().describe() << ": the measurement does not see logits";
    }
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

/// As another program has saved it: in two files, under other names, in another dtype.
class MeshFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(9);
    const auto net = gpt(128, 5);
    std::vector<tw::NamedTensor> first;
    std::vector<tw::NamedTensor> second;
    for (const auto& each : net->named_parameters()) {
      const at::Tensor half = each.value().detach().to(torch::kBFloat16);
      (first.size() > second.size() ? second : first).push_back({"model." + each.key(), half});
      expected_[each.key()] = half.to(torch::kFloat);
    }
    directory_ = testing::TempDir();
    if (world().rank() == 0) tw::write_safetensors(paths()[0], first);
    if (world().rank() == 0) tw::write_safetensors(paths()[1], second);
    world().barrier();
  }
  void TearDown() override {
    world().barrier();
    for (const auto& path : paths()) std::filesystem::remove(path);
  }
  std::vector<std::filesystem::path> paths() const { return {directory_ / "first.safetensors", directory_ / "second.safetensors"}; }

  std::map<std::string, at::Tensor> expected_;
  std::filesystem::path directory_;
};

TEST_F(MeshFiles, AreReadInParts) {
  for (const auto& axes : meshes()) {
    const tw::Mesh mesh(world(), axes);
    tw::ParallelModel model = tw::parallelize(mesh, [] { return gpt(128, 5); }, {tokens(2)}, {.unit_bytes = 1 << 19});
    (void)model.forward(tokens(2));  // what it has gathered is then out of date
    model.load(paths(), [](const std::string& name) { return "model." + name; });
    const at::Tensor outputs = model.forward(tokens(2));
    size_t found = 0;
    for (const tw::NamedTensor& each : model.whole_on_root()) found += expected_.at(each.name).equal(each.tensor) ? 1 : 0;
    EXPECT_EQ(found, world().rank() == 0 ? expected_.size() : 0) << mesh.shape().describe();
    auto whole = gpt(128, 5);
    const at::NoGradGuard no_grad;
    for (const auto& each : whole->named_parameters()) each.value().copy_(expected_.at(each.key()));
    EXPECT_TRUE(outputs.allclose(whole->forward(tokens(2)), 1e-4, 1e-5)) << mesh.shape().describe();
  }
}

TEST_F(MeshFiles, ThatDoNotFitChangeNothing) {
  const tw::Mesh mesh(world(), {{"shard", 2}, {"stage", 2}});
  tw::ParallelModel model = tw::parallelize(mesh, [] { return gpt(128, 4); }, {tokens(2)}, {.seed = seed});
  const at::Tensor before = model.forward(tokens(2));
  const auto broken = [](const std::string& name) { return name == "blocks.2.wide.weight" ? "model.blocks.2.narrow.weight" : "model." + name; };
  const std::string error = message_of([&] { model.load(paths(), broken); });
  EXPECT_NE(error.find("'model.blocks.2.narrow.weight' has the shape"), std::string::npos) << error;
  const std::string missing = message_of([&] { model.load({paths()[0]}, [](const std::string& name) { return "model." + name; }); });
  EXPECT_NE(missing.find("there is no 'model."), std::string::npos) << missing;
  EXPECT_TRUE(before.equal(model.forward(tokens(2))));
  model.load(paths(), [](const std::string& name) { return name == "norm.bias" ? "" : "model." + name; });
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

// SPDX-License-Identifier: Apache-2.0
// Every data x tensor mesh of the run's ranks, compared with one process with the whole batch: 20 steps in float64, each parameter to 1e-12 in the
// 2-norm. DataParallel reduces along `data`; along `tensor` there is nothing to reduce. Tolerance as in layers_test.cpp.
#include "longer.hpp"
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/comm/replicas.hpp>
#include <tw/data_parallel.hpp>
#include <tw/tensor_parallel.hpp>

namespace mesh_training_test {

using namespace tw::tensor_parallel;
using tw::testing::world;

torch::nn::Sequential one_process() {
  torch::manual_seed(6);
  torch::nn::Sequential net(torch::nn::Embedding(17, 6), torch::nn::Linear(6, 7), torch::nn::Tanh(), torch::nn::Linear(7, 6), torch::nn::Tanh(),
                            torch::nn::Linear(6, 5));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  return net;
}

torch::nn::Sequential split_over(const tw::Communicator& tensor_axis) {
  torch::manual_seed(6);
  torch::nn::Sequential net(VocabParallelEmbedding(tensor_axis, 17, 6), ColumnParallelLinear(tensor_axis, 6, 7), torch::nn::Tanh(),
                            RowParallelLinear(tensor_axis, 7, 6), torch::nn::Tanh(), torch::nn::Linear(6, 5));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  return net;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(bool adam, const torch::nn::Sequential& net) {
  if (adam) return std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

constexpr int64_t batch = 6;  // per rank of the data axis

/// Samples of one step.
struct Samples {
  at::Tensor words;
  at::Tensor classes;
  at::Tensor loss(torch::nn::Sequential& net) const { return torch::cross_entropy_loss(net->forward(words), classes); }
  Samples of(const tw::Mesh& mesh) const {
    const int64_t begin = batch * mesh.coordinate("data");
    return {words.narrow(0, begin, batch), classes.narrow(0, begin, batch)};
  }
};

Samples samples_of(int step, const tw::Mesh& mesh) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  const int64_t samples = batch * mesh["data"].size();
  const at::Tensor words = tw::testing::place(torch::randint(17, {samples}, torch::kLong));
  return {words, tw::testing::place(torch::randint(5, {samples}, torch::kLong))};
}

void expect_slices_of(const torch::nn::Sequential& reference, const torch::nn::Sequential& ours) {
  const auto expected = reference->named_parameters();
  std::vector<tw::NamedShard> shards;
  for (const auto& parameter : ours->named_parameters()) {
    shards.push_back(tw::whole(parameter.key(), parameter.value().clone().detach(), tw::ShardKind::parameter));
  }
  for (const tw::NamedShard& shard : sliced(*ours, shards)) {
    const at::Tensor& whole = expected[shard.name];
    at::Tensor part = whole;
    for (int64_t d = 0; d < whole.dim(); ++d) part = part.narrow(d, shard.offsets[static_cast<size_t>(d)], shard.tensor.size(d));
    EXPECT_LE((shard.tensor - part).norm().item<double>(), 1e-12 * whole.norm().item<double>()) << shard.name;
  }
}

void expect_equivalence(const tw::Mesh& mesh, bool adam, bool overlap) {
  SCOPED_TRACE(mesh.shape().describe());
  torch::nn::Sequential reference = one_process();
  torch::nn::Sequential ours = split_over(mesh["tensor"]);
  const auto reference_optimizer = make_optimizer(adam, reference);
  const auto our_optimizer = make_optimizer(adam, ours);
  const tw::DataParallel parallel(mesh["data"], *ours, {.reduction = tw::Reduction::mean, .overlap = overlap});
  for (int step = 0; step < 20; ++step) {
    const Samples samples = samples_of(step, mesh);
    reference_optimizer->zero_grad();
    samples.loss(reference).backward();
    reference_optimizer->step();

    our_optimizer->zero_grad();
    samples.of(mesh).loss(ours).backward();
    our_optimizer->step();
  }
  expect_slices_of(reference, ours);
}

/// How gradients are clipped, to a norm that each step exceeds.
enum class Clipping { by_function, by_optimizer_of_slices, by_optimizer_of_tensors, by_fully_sharded };

void expect_one_norm(const tw::Mesh& mesh, Clipping clipping) {
  constexpr double max_norm = 0.1;
  torch::nn::Sequential reference = one_process();
  torch::nn::Sequential ours = split_over(mesh["tensor"]);
  const auto reference_optimizer = make_optimizer(false, reference);
  const auto our_optimizer = make_optimizer(false, ours);
  tw::DataParallelOptions options{.reduction = tw::Reduction::mean, .buckets = {.first_bucket_bytes = 128, .bucket_bytes = 256}};
  if (clipping == Clipping::by_optimizer_of_slices) options.sharding = tw::Sharding::slices;
  if (clipping == Clipping::by_optimizer_of_tensors) options.sharding = tw::Sharding::tensors;
  std::optional<tw::DataParallel> parallel;
  std::optional<tw::ShardedOptimizer> sharded;
  std::optional<tw::FullySharded> fully;
  std::unique_ptr<torch::optim::Optimizer> of_slices;
  if (clipping == Clipping::by_fully_sharded) {
    fully.emplace(mesh["data"], *ours, tw::FullyShardedOptions{.reduction = tw::Reduction::mean, .unit_bytes = 256});
    of_slices = std::make_unique<torch::optim::SGD>(fully->slices(), torch::optim::SGDOptions(0.05).momentum(0.9));
  } else {
    parallel.emplace(mesh["data"], *ours, options);
  }
  if (options.sharding != tw::Sharding::none) {
    sharded.emplace(parallel->reducer(), parallel->parameters(), tw::optimizer_like(*our_optimizer, parallel->parameters()),
                    tw::ShardedOptimizerOptions{.max_gradient_norm = max_norm});
  }
  for (int step = 0; step < 10; ++step) {
    const Samples samples = samples_of(step, mesh);
    reference_optimizer->zero_grad();
    samples.loss(reference).backward();
    const double norm = torch::nn::utils::clip_grad_norm_(reference->parameters(), max_norm);
    EXPECT_GT(norm, max_norm);
    reference_optimizer->step();

    (of_slices ? *of_slices : *our_optimizer).zero_grad();
    samples.of(mesh).loss(ours).backward();
    if (fully) {
      EXPECT_NEAR(fully->clip_gradient_norm(max_norm), norm, 1e-12 * norm);
      of_slices->step();
    } else if (sharded) {
      sharded->step();
      EXPECT_NEAR(sharded->gradient_norm(), norm, 1e-12 * norm);
    } else {
      EXPECT_NEAR(tw::clip_gradient_norm(*ours, max_norm), norm, 1e-12 * norm);
      our_optimizer->step();
    }
  }
  expect_slices_of(reference, ours);
}

TEST(MeshTraining, GradientsAreClippedByOneNorm) {
  for (int data = 1; data <= world().size(); ++data) {
    if (world().size() % data != 0) continue;
    const tw::Mesh mesh(world(), {{"data", data}, {"tensor", -1}});
    for (const auto clipping :
         {Clipping::by_function, Clipping::by_optimizer_of_slices, Clipping::by_optimizer_of_tensors, Clipping::by_fully_sharded}) {
      SCOPED_TRACE(tw::concat(mesh.shape().describe(), ", ", static_cast<int>(clipping)));
      expect_one_norm(mesh, clipping);
    }
  }
}

// Alone, and below a DataParallel, whose reduced gradients replace those of the backward pass.
TEST(MeshTraining, RefusesToCombineTheGradientsOfSlices) {
  for (const bool replicated : {false, true}) {
    const tw::Mesh mesh(world(), {{"data", replicated && world().size() % 2 == 0 ? 2 : 1}, {"tensor", -1}});
    if (mesh["tensor"].size() == 1) continue;
    SCOPED_TRACE(mesh.shape().describe());
    torch::nn::Sequential net = split_over(mesh["tensor"]);
    std::optional<tw::DataParallel> parallel;
    if (replicated) parallel.emplace(mesh["data"], *net, tw::DataParallelOptions{.reduction = tw::Reduction::mean});
    const auto error_of = [&](const std::function<void()>& call) {
      net->zero_grad();
      if (parallel) {
        const auto held = parallel->no_sync();
        samples_of(0, mesh).of(mesh).loss(net).backward();
      }
      samples_of(0, mesh).of(mesh).loss(net).backward();
      return tw::testing::message_of(call);
    };
    const std::string clipping = error_of([&] { torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1); });
    EXPECT_NE(clipping.find("clip by tw::clip_gradient_norm(module, max_norm)"), std::string::npos) << clipping;
    torch::optim::LBFGS lbfgs(net->parameters());
    const std::string combining = error_of([&] { lbfgs.step([] { return torch::zeros({}); }); });
    EXPECT_NE(combining.find("(LBFGS)"), std::string::npos) << combining;
    EXPECT_GT(tw::clip_gradient_norm(*net, 0.1), 0);
  }
}

// In a ring between hosts, the order in which an element is summed depends on the part of the bucket that contains it. The split layers have odd
// sizes. The first layer crosses a border between two parts among three hosts. Its elements therefore lie in a different part on each rank of the
// tensor axis.
TEST(MeshTraining, PlainLayersKeepTheSameBitsOnAllHolders) {
  const bool two = world().size() % 2 == 0;
  const tw::Mesh mesh(world(), {{"data", -1}, {"tensor", two ? 2 : 1}});
  const tw::Communicator& axis = mesh["tensor"];
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(200, 200), torch::nn::Tanh(), ColumnParallelLinear(axis, 200, 201), torch::nn::Tanh(),
                            RowParallelLinear(axis, 201, 200), torch::nn::Tanh(), torch::nn::Linear(200, 3));
  torch::optim::SGD sgd(net->parameters(), 0.05);
  const tw::DataParallel parallel(mesh["data"], *net, {.reduction = tw::Reduction::mean});
  torch::manual_seed(static_cast<uint64_t>(100 + mesh.coordinate("data")));
  const at::Tensor x = torch::randn({8, 200});
  for (int step = 0; step < tw::testing::longer("TEST_UPDATES", 20); ++step) {
    sgd.zero_grad();
    net->forward(x).square().mean().backward();
    sgd.step();
  }
  for (const std::string name : {"0.weight", "0.bias", "4.bias", "6.weight", "6.bias"}) {
    EXPECT_TRUE(tw::compare_replicas(world(), net->named_parameters()[name]).identical) << name;
  }
}

TEST(MeshTraining, PlainLayersMustBeginEqual) {
  const tw::Mesh mesh(world(), {{"data", 1}, {"tensor", -1}});
  torch::manual_seed(6);
  torch::nn::Sequential net(ColumnParallelLinear(mesh["tensor"], 6, 8), RowParallelLinear(mesh["tensor"], 8, 6));
  torch::manual_seed(static_cast<uint64_t>(world().rank()));
  net->push_back(torch::nn::Linear(6, 2));
  const auto wrap = [&] { const tw::DataParallel parallel(mesh["data"], *net, {.reduction = tw::Reduction::mean}); };
  if (world().size() == 1) return wrap();
  const std::string message = tw::testing::message_of(wrap);
  EXPECT_NE(message.find("'2.weight' is replicated, but differs between ranks 0 and 1"), std::string::npos) << message;
}

TEST(MeshTraining, DataTimesTensorIsOneProcess) {
  for (int data = 1; data <= world().size(); ++data) {
    if (world().size() % data != 0) continue;
    const tw::Mesh mesh(world(), {{"data", data}, {"tensor", -1}});
    for (const bool adam : {false, true}) {
      for (const bool overlap : {false, true}) expect_equivalence(mesh, adam, overlap);
    }
  }
}

}  // namespace mesh_training_test

// SPDX-License-Identifier: Apache-2.0
// A checkpoint of one partition continues under another one without a difference; gradient norms cover the whole model.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/state.hpp>

#include "reference.hpp"

namespace tw::pipeline {
namespace pipeline_state_test {

using testing::world;

/// Dropout, whose results depend on the call number, a batch norm, and a layer used twice.
std::vector<BlockFactory> blocks() {
  const torch::nn::Linear shared(6, 6);
  const auto again = block([shared] { return shared; });
  return {block([] { return torch::nn::Linear(3, 6); }),   again, block([] { return torch::nn::Dropout(0.3); }),
          block([] { return torch::nn::BatchNorm1d(6); }), again, block([] { return torch::nn::Linear(6, 2); })};
}

PipelineOptions options_of(const std::vector<int>& replicas) {
  return {.schedule = one_forward_one_backward(static_cast<int>(replicas.size()), 2), .replicas = replicas, .seed = 3};
}

torch::Tensor squares(const torch::Tensor& y, const torch::Tensor& t) { return (y - t).square().mean(); }

std::pair<torch::Tensor, torch::Tensor> batch_of(int step) {
  torch::manual_seed(static_cast<uint64_t>(50 + step));
  return {torch::randn({40, 3}, torch::kDouble), torch::randn({40, 2}, torch::kDouble)};
}

/// A pipeline with its optimizer.
struct Trained {
  explicit Trained(const PipelineOptions& options) {
    torch::manual_seed(1);
    model.emplace(world(), blocks(), options);
    model->to(torch::kDouble);
    std::vector<torch::Tensor> parameters;
    for (const OptimizedTensor& each : model->optimized_tensors()) parameters.push_back(each.tensor);
    if (!parameters.empty()) adam.emplace(parameters, 0.01);
  }
  void step(int i) {
    const auto [x, t] = batch_of(i);
    model->zero_grad();
    model->run(x, t, squares);
    if (adam) adam->step();
  }
  std::optional<OptimizerState> state() {
    if (!adam) return std::nullopt;
    return OptimizerState(*adam, model->optimized_tensors());
  }
  std::vector<NamedShard> shards() {
    std::vector<NamedShard> all = model->shards();
    if (auto of_optimizer = state()) {
      for (NamedShard& each : of_optimizer->shards()) all.push_back(std::move(each));
    }
    return all;
  }
  /// The whole model's tensors by name, on rank 0.
  std::map<std::string, torch::Tensor> whole() const {
    std::map<std::string, torch::Tensor> all;
    for (const NamedTensor& each : model->whole_on_root()) all.emplace(each.name, each.tensor);
    return all;
  }
  std::optional<Pipeline> model;
  std::optional<torch::optim::Adam> adam;
};

void load(Trained& trained, const CheckpointStore& store, int64_t step) {
  std::vector<NamedShard> shards = trained.model->shards();
  std::optional<OptimizerState> state = trained.state();
  std::vector<NamedShard> of_optimizer;
  const CheckpointIndex index = store.index(step);
  if (state) {
    std::vector<std::string> mine;
    for (const auto& tensor : index.tensors) {
      for (const OptimizedTensor& each : trained.model->optimized_tensors()) {
        if (tensor.spec.name.starts_with("optimizer/" + each.slices.front().name + '/')) mine.push_back(tensor.spec.name);
      }
    }
    state->prepare(mine);
    of_optimizer = state->shards();
    shards.insert(shards.end(), of_optimizer.begin(), of_optimizer.end());
  }
  store.load(step, shards);
  if (state) state->apply(of_optimizer);
}

TEST(PipelineState, GoesOnUnderAnotherPartition) {
  const std::string directory = broadcast_string(world(), concat(::testing::TempDir(), "pipeline_state_", ::getpid()), Rank(0));
  const std::vector<std::vector<int>> all = layouts(world().size());
  CheckpointStore store(world(), directory, {.keep = 100});
  for (size_t i = 0; i < all.size(); ++i) {
    Trained saved(options_of(all[i]));
    for (int step = 0; step < 2; ++step) saved.step(step);
    store.save(static_cast<int64_t>(i), saved.shards(), "");
    store.wait();
    // Another partition has other replicas, and therefore other dropout masks and statistics. Both load and continue, and must be equal at that
    // point.
    Trained loaded(options_of(all[(i + 1) % all.size()]));
    load(loaded, store, static_cast<int64_t>(i));
    const auto before = saved.whole();
    const auto after = loaded.whole();
    EXPECT_EQ(before.size(), after.size());
    for (const auto& [name, tensor] : before) EXPECT_TRUE(tensor.equal(after.at(name))) << name;
    // The same partition continues bit for bit.
    Trained again(options_of(all[i]));
    load(again, store, static_cast<int64_t>(i));
    saved.step(2);
    again.step(2);
    const auto expected = saved.whole();
    for (const auto& [name, tensor] : again.whole()) {
      EXPECT_LE((tensor.to(torch::kDouble) - expected.at(name).to(torch::kDouble)).abs().max().item<double>(), 1e-13) << name;
    }
  }
  world().barrier();
  if (world().rank() == 0) std::filesystem::remove_all(directory);
}

// A sharded optimizer moves parameters into one buffer: the layer that is used twice stays one tensor of two names.
TEST(PipelineState, NamesStayWhereParametersShareAStorage) {
  for (const std::vector<int>& replicas : layouts(world().size())) {
    const Trained ours(options_of(replicas));
    const auto names_of_shards = [&] {
      std::map<std::string, std::vector<std::string>> names;
      for (const NamedShard& each : ours.model->shards()) EXPECT_TRUE(names.emplace(each.name, each.aliases).second) << each.name;
      return names;
    };
    const auto before = names_of_shards();
    const torch::Tensor buffer = torch::zeros({1000}, torch::kDouble);
    int64_t offset = 0;
    for (const NamedTensor& each : ours.model->tensors().parameters) {
      torch::Tensor(each.tensor).set_data(buffer.narrow(0, offset, each.tensor.numel()).view(each.tensor.sizes()));
      offset += each.tensor.numel();
    }
    EXPECT_EQ(names_of_shards(), before);
  }
}

TEST(PipelineState, ClipsAsOneProcessDoes) {
  for (const std::vector<int>& replicas : layouts(world().size())) {
    const PipelineOptions options = options_of(replicas);
    torch::manual_seed(1);
    Reference expected(stages_of(blocks(), options), options);
    for (const StageModel& stage : expected.stages()) stage.module->to(torch::kDouble);
    torch::manual_seed(1);
    Pipeline ours(world(), blocks(), options);
    ours.to(torch::kDouble);
    for (const double max_norm : {0.1, 1e3}) {
      const auto [x, t] = batch_of(0);
      ours.zero_grad();
      for (torch::Tensor& p : expected.parameters()) p.mutable_grad() = torch::Tensor();
      ours.run(x, t, squares);
      expected.run({x}, {t}, [](const Tensors& y, const Tensors& u) { return squares(y[0], u[0]); });
      const double norm = torch::nn::utils::clip_grad_norm_(expected.parameters(), max_norm);
      if (replicas.size() > 1 && !ours.parameters().empty()) {
        const std::string error = testing::message_of([&] { torch::nn::utils::clip_grad_norm_(ours.parameters(), max_norm); });
        EXPECT_NE(error.find("clip by Pipeline::clip_grad_norm()"), std::string::npos) << error;
      }
      EXPECT_NEAR(ours.clip_grad_norm(max_norm), norm, 1e-12 * std::max(1.0, norm));
      const auto theirs = expected.tensors();
      for (const auto& p : ours.named_parameters()) {
        // Sums in a different order; the norm's own error scales all gradients.
        EXPECT_LE((p.value().grad() - theirs[p.key()].grad()).abs().max().item<double>(), 1e-12 * std::max(1.0, norm)) << p.key();
      }
    }
  }
}

/// Looks up words in a table, whose gradients are rows.
std::vector<BlockFactory> blocks_of_words() {
  return {block([] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 6).sparse(true)); }), block([] { return torch::nn::Linear(6, 6); }),
          block([] { return torch::nn::Tanh(); }), block([] { return torch::nn::Linear(6, 2); })};
}

// Also over two runs: the sum counts once.
TEST(PipelineState, SumsSparseGradientsOfReplicas) {
  for (const std::vector<int>& replicas : layouts(world().size())) {
    const PipelineOptions options = options_of(replicas);
    torch::manual_seed(1);
    Reference expected(stages_of(blocks_of_words(), options), options);
    for (const StageModel& stage : expected.stages()) stage.module->to(torch::kDouble);
    torch::manual_seed(1);
    Pipeline ours(world(), blocks_of_words(), options);
    ours.to(torch::kDouble);
    for (int run = 0; run < 2; ++run) {
      torch::manual_seed(static_cast<uint64_t>(run));
      const torch::Tensor words = torch::randint(9, {13}, torch::kLong);
      const torch::Tensor targets = torch::randn({13, 2}, torch::kDouble);
      ours.run(words, targets, squares);
      expected.run({words}, {targets}, [](const Tensors& y, const Tensors& t) { return squares(y[0], t[0]); });
    }
    const auto theirs = expected.tensors();
    for (const auto& p : ours.named_parameters()) {
      EXPECT_EQ(p.value().grad().is_sparse(), p.key() == "0.weight");
      EXPECT_LE((p.value().grad().to_dense() - theirs[p.key()].grad().to_dense()).abs().max().item<double>(), 1e-13) << p.key();
    }
  }
}

TEST(PipelineState, ClipsOnceThereAreGradients) {
  Pipeline ours(world(), blocks(), options_of(layouts(world().size()).back()));
  EXPECT_THROW(ours.clip_grad_norm(1), ContractError);
}

// Trained, evaluated and trained again by a trainer that only calls set_training().
TEST(PipelineState, PartsThatEvalHasFrozenStayFrozen) {
  for (const std::vector<int>& replicas : layouts(world().size())) {
    Trained ours(options_of(replicas));
    const auto parts = ours.model->named_children();
    const auto* norm = parts.find("3");
    if (norm != nullptr) (*norm)->eval();
    for (int step = 0; step < 2; ++step) {
      ours.model->set_training(true);
      ours.step(step);
      EXPECT_TRUE(norm == nullptr || !(*norm)->is_training());
      for (int i = 0; i < 2; ++i) ours.model->set_training(false);
      for (const auto& each : ours.model->modules(/*include_self=*/false)) EXPECT_FALSE(each->is_training());
      ours.model->forward(batch_of(step).first);
    }
    ours.model->set_training(true);
    for (const auto& each : parts) EXPECT_EQ(each.value()->is_training(), each.key() != "3");
    for (const auto& each : ours.model->named_buffers()) {
      EXPECT_TRUE(each.key() != "3.running_mean" || each.value().eq(0).all().item<bool>());
    }
  }
}

}  // namespace pipeline_state_test
}  // namespace tw::pipeline

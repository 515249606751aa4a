// SPDX-License-Identifier: Apache-2.0
// A canary for composition: a network cut by hand into two stages, on two data ranks each, with a sharded optimizer. It is saved on 2 x 2 ranks, and
// loaded on 4 x 1 and on 1. Also the same two stages, fully sharded over two data ranks. All of it equals one process with all samples, |ours -
// reference| <= 1e-12 |reference| in the 2-norm, float64: see equivalence_test.cpp of data_parallel for the tolerance. With --device, the ranks
// compute there, and the one process on the CPU.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/gradients.hpp>
#include <tw/state.hpp>

namespace canary_test {

using tw::testing::world;

constexpr int64_t samples = 24;  // per step, over all data ranks
constexpr int64_t micro_batches = 3;
constexpr int64_t width = 13;  // of the activations between the stages

/// Two stages: one layer in the first, two in the second.
struct Net : torch::nn::Module {
  /// @param device of its tensors. The reference is on the CPU, which draws the initial values
  explicit Net(c10::Device device = at::kCPU) {
    torch::manual_seed(5);
    first = register_module("first", torch::nn::Linear(7, width));
    second = register_module("second", torch::nn::Linear(width, 11));
    third = register_module("third", torch::nn::Linear(11, 3));
    to(torch::kDouble);
    if (device == tw::testing::device()) tw::testing::place_module(this);
  }
  at::Tensor below(const at::Tensor& x) { return torch::tanh(first(x)); }
  at::Tensor above(const at::Tensor& h) { return third(torch::tanh(second(h))); }

  /// @param stage 0 below, 1 above, -1 both.
  std::vector<tw::NamedTensor> parameters_of(int stage) const {
    std::vector<tw::NamedTensor> some;
    for (const auto& entry : named_parameters()) {
      if (stage < 0 || (stage == 0) == entry.key().starts_with("first")) some.push_back({entry.key(), entry.value()});
    }
    return some;
  }

  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
  torch::nn::Linear third{nullptr};
};

std::vector<at::Tensor> tensors(const std::vector<tw::NamedTensor>& named) {
  std::vector<at::Tensor> all;
  for (const tw::NamedTensor& tensor : named) all.push_back(tensor.tensor);
  return all;
}

torch::optim::AdamW make_optimizer(const std::vector<tw::NamedTensor>& parameters) {
  return torch::optim::AdamW(tensors(parameters), torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
}

struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

/// Part `part` of `parts` of a step's samples.
Batch batch_of(int64_t step, int64_t part, int64_t parts) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  const at::Tensor inputs = torch::randn({samples, 7}, torch::kDouble);
  const at::Tensor targets = torch::randint(3, {samples}, torch::kLong);
  const int64_t count = samples / parts;
  return {inputs.narrow(0, part * count, count), targets.narrow(0, part * count, count)};
}

/// The same on this run's device.
Batch batch_here(int64_t step, int64_t part, int64_t parts) {
  const Batch batch = batch_of(step, part, parts);
  return {batch.inputs.to(tw::testing::device()), batch.targets.to(tw::testing::device())};
}

at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets) { return torch::cross_entropy_loss(outputs, targets); }

/// Common to all variants: parameters and optimizer state, to be saved and loaded.
std::vector<tw::NamedShard> shards_of(const std::vector<tw::NamedTensor>& parameters, const tw::OptimizerState& state) {
  std::vector<tw::NamedShard> shards = state.shards();
  for (const auto& [name, tensor] : parameters) shards.push_back(tw::whole(name, tensor, tw::ShardKind::parameter));
  return shards;
}

void load(const tw::CheckpointStore& store, const std::vector<tw::NamedTensor>& parameters, tw::OptimizerState state) {
  const at::NoGradGuard no_grad;
  const int64_t step = store.newest_valid().value();
  state.prepare(store.names(step));
  const auto shards = shards_of(parameters, state);
  store.load(step, shards);
  state.apply(shards);
}

/// One process, all samples.
struct Reference {
  void step(int64_t number) {
    const Batch all = batch_of(number, 0, 1);
    optimizer.zero_grad();
    loss_of(net.above(net.below(all.inputs)), all.targets).backward();
    optimizer.step();
  }
  Net net;
  torch::optim::AdamW optimizer = make_optimizer(net.parameters_of(-1));
};

/// One stage, and its passes.
class Stage {
 public:
  explicit Stage(const tw::Mesh& mesh) : mesh_(mesh) {}

  // All micro-batches forward, then all backward; the gradients are complete after the last.
  void pass(int64_t number, torch::optim::Optimizer& optimizer) {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    for (int64_t i = 0; i < micro_batches; ++i) {
      const Batch batch = batch_here(number, mesh_.coordinate("data") * micro_batches + i, mesh_["data"].size() * micro_batches);
      if (stage_ == 0) {
        outputs.push_back(net_.below(batch.inputs));
        tw::send(mesh_["stage"], outputs.back().detach(), tw::Rank(1));
      } else {
        inputs.push_back(torch::empty({batch.targets.size(0), width}, tw::testing::on_device(torch::kDouble).requires_grad(true)));
        tw::recv(mesh_["stage"], inputs.back(), tw::Rank(0));
        outputs.push_back(loss_of(net_.above(inputs.back()), batch.targets) / micro_batches);
      }
    }
    optimizer.zero_grad();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (stage_ == 0) {
        const at::Tensor gradient = torch::empty_like(outputs[i]);
        tw::recv(mesh_["stage"], gradient, tw::Rank(1));
        outputs[i].backward(gradient);
      } else {
        outputs[i].backward();
        tw::send(mesh_["stage"], inputs[i].grad(), tw::Rank(0));
      }
    }
  }

  const tw::Communicator& data() const { return mesh_["data"]; }
  const std::vector<tw::NamedTensor>& parameters() const { return parameters_; }

 private:
  const tw::Mesh& mesh_;
  Net net_{tw::testing::device()};
  int stage_ = mesh_.coordinate("stage");
  std::vector<tw::NamedTensor> parameters_ = net_.parameters_of(stage_);
};

/// One stage on its data ranks, with a sharded optimizer.
class Pipelined {
 public:
  explicit Pipelined(const tw::Mesh& mesh) : stage_(mesh) {}

  void step(int64_t number) {
    stage_.pass(number, prototype_);
    reducer_.begin();
    for (size_t id = 0; id < parameters().size(); ++id) reducer_.mark_ready(static_cast<int64_t>(id), parameters()[id].tensor.grad());
    reducer_.wait();
    optimizer_.step();
  }

  std::vector<tw::NamedShard> shards() { return shards_of(parameters(), {optimizer_.local(), optimizer_.optimized()}); }
  const std::vector<tw::NamedTensor>& parameters() const { return stage_.parameters(); }

 private:
  Stage stage_;
  tw::Reducer reducer_{stage_.data(),
                       tw::specs_of(parameters()),
                       {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices, .device = tw::testing::device()}};
  torch::optim::AdamW prototype_ = make_optimizer(parameters());
  tw::ShardedOptimizer optimizer_{reducer_, parameters(), tw::optimizer_like(prototype_, parameters())};
};

/// One stage, fully sharded over its data ranks. Each micro-batch's backward pass reduces.
class InSlices {
 public:
  explicit InSlices(const tw::Mesh& mesh) : stage_(mesh) {}

  void step(int64_t number) {
    stage_.pass(number, optimizer_);
    optimizer_.step();
  }

  std::vector<tw::NamedShard> shards() {
    std::vector<tw::NamedShard> shards = tw::OptimizerState(optimizer_, sharded_.optimized()).shards();
    for (tw::NamedShard& shard : sharded_.shards()) shards.push_back(std::move(shard));
    return shards;
  }
  const std::vector<tw::NamedTensor>& parameters() const { return stage_.parameters(); }

 private:
  Stage stage_;
  tw::FullySharded sharded_{stage_.data(), stage_.parameters(), {.reduction = tw::Reduction::mean, .unit_bytes = 500}};
  torch::optim::AdamW optimizer_ = make_optimizer(sharded_.named_slices());
};

/// The whole network on data ranks.
class Unpipelined {
 public:
  explicit Unpipelined(const tw::Communicator& data) : data_(data) {}

  void step(int64_t number) {
    const Batch batch = batch_here(number, data_.rank(), data_.size());
    optimizer_.zero_grad();
    loss_of(net_.above(net_.below(batch.inputs)), batch.targets).backward();
    reducer_.begin();
    for (size_t id = 0; id < parameters_.size(); ++id) reducer_.mark_ready(static_cast<int64_t>(id), parameters_[id].tensor.grad());
    reducer_.wait();
    optimizer_.step();
  }

  void load_from(const tw::CheckpointStore& store) { load(store, parameters_, {optimizer_.local(), optimizer_.optimized()}); }
  const std::vector<tw::NamedTensor>& parameters() const { return parameters_; }

 private:
  const tw::Communicator& data_;
  Net net_{tw::testing::device()};
  std::vector<tw::NamedTensor> parameters_ = net_.parameters_of(-1);
  tw::Reducer reducer_{data_,
                       tw::specs_of(parameters_),
                       {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices, .release = true, .device = tw::testing::device()}};
  torch::optim::AdamW prototype_ = make_optimizer(parameters_);
  tw::ShardedOptimizer optimizer_{reducer_, parameters_, tw::optimizer_like(prototype_, parameters_)};
};

void expect_equal(const std::vector<tw::NamedTensor>& ours, const Reference& reference, const std::string& what) {
  const auto expected = reference.net.named_parameters();
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : ours) {
    EXPECT_LE((tensor.cpu() - expected[name]).norm().item<double>(), 1e-12 * expected[name].norm().item<double>()) << what << " " << name;
  }
}

TEST(Canary, StagesTimesDataWithAShardedOptimizerIsOneProcess) {
  const auto directory = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "canary";
  constexpr int64_t before = 6;
  constexpr int64_t after = 6;
  Reference reference;
  for (int64_t step = 0; step < before; ++step) reference.step(step);
  {
    const tw::Mesh mesh(world(), {{"data", 2}, {"stage", 2}});
    Pipelined pipelined(mesh);
    for (int64_t step = 0; step < before; ++step) pipelined.step(step);
    expect_equal(pipelined.parameters(), reference, "2 x 2");
    tw::CheckpointStore store(world(), directory);
    store.save(before, pipelined.shards(), "");
    store.wait();
    for (int64_t step = before; step < before + after; ++step) {
      pipelined.step(step);
      reference.step(step);
    }
    expect_equal(pipelined.parameters(), reference, "2 x 2, later");
  }
  {
    const tw::Mesh mesh(world(), {{"data", 4}, {"stage", 1}});
    Unpipelined unpipelined(mesh["data"]);
    unpipelined.load_from(tw::CheckpointStore(world(), directory));
    for (int64_t step = before; step < before + after; ++step) unpipelined.step(step);
    expect_equal(unpipelined.parameters(), reference, "loaded on 4 x 1");
  }
  const tw::Communicator alone = world().split(world().rank(), 0);
  if (world().rank() == 0) {
    Reference single;
    const auto parameters = single.net.parameters_of(-1);
    load(tw::CheckpointStore(alone, directory), parameters, {single.optimizer, parameters});
    for (int64_t step = before; step < before + after; ++step) single.step(step);
    expect_equal(parameters, reference, "loaded on 1");
    std::filesystem::remove_all(directory);
  }
}

TEST(Canary, StagesTimesFullyShardedIsOneProcess) {
  if (!tw::testing::device().is_cpu()) GTEST_SKIP() << "on the CPU only";
  const auto directory = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "canary_in_slices";
  constexpr int64_t before = 6;
  Reference reference;
  for (int64_t step = 0; step < before; ++step) reference.step(step);
  const tw::Mesh mesh(world(), {{"data", 2}, {"stage", 2}});
  InSlices in_slices(mesh);
  for (int64_t step = 0; step < before; ++step) in_slices.step(step);
  expect_equal(in_slices.parameters(), reference, "2 x 2");
  {
    tw::CheckpointStore store(world(), directory);
    store.save(before, in_slices.shards(), "");
    store.wait();
  }
  in_slices.step(before);
  reference.step(before);
  expect_equal(in_slices.parameters(), reference, "2 x 2, later");
  const tw::Communicator alone = world().split(world().rank(), 0);
  if (world().rank() != 0) return;
  Reference single;
  const auto parameters = single.net.parameters_of(-1);
  load(tw::CheckpointStore(alone, directory), parameters, {single.optimizer, parameters});
  single.step(before);
  expect_equal(parameters, reference, "loaded on 1");
  std::filesystem::remove_all(directory);
}

}  // namespace canary_test

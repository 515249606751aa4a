// SPDX-License-Identifier: Apache-2.0
// Modules and optimizers as shards, and exported files, on one rank. LibTorch itself is the oracle.
#include "full_disk.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <tw/state.hpp>
#include <tw/tensor/held_memory.hpp>

namespace module_state_test {

namespace fs = std::filesystem;
using tw::NamedShard;
using tw::NamedTensor;
using tw::testing::world;

fs::path fresh_folder() {
  const fs::path folder = fs::path(testing::TempDir()) / tw::concat("tw_module_state_", world().size());
  if (world().rank() == 0) fs::remove_all(folder);
  world().barrier();
  return folder;
}

/// A linear layer that uses another layer's weight.
struct TiedImpl : torch::nn::Module {
  explicit TiedImpl(const at::Tensor& of_another)
      : weight(register_parameter("weight", of_another)), bias(register_parameter("bias", torch::zeros({of_another.size(0)}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(x, weight, bias); }

  at::Tensor weight;
  at::Tensor bias;
};
TORCH_MODULE(Tied);

/// Nested, with buffers, a tied weight, and children without parameters.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    body = register_module("body", torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6), torch::nn::ReLU(),
                                                         torch::nn::Linear(6, 6), torch::nn::Tanh()));
    head = register_module("head", Tied(body[3]->as<torch::nn::Linear>()->weight));
    drop = register_module("drop", torch::nn::Dropout(0.0));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(drop(body->forward(x))); }

  torch::nn::Sequential body;
  Tied head{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(Net);

// docs/checkpoints.md begins
std::vector<tw::NamedTensor> named_parameters(const torch::nn::Module& module) {
  std::vector<tw::NamedTensor> tensors;
  for (const auto& entry : module.named_parameters()) tensors.push_back({entry.key(), entry.value()});
  return tensors;
}

struct Training {
  Training(const tw::Communicator& comm, const std::filesystem::path& folder)
      : optimizer(net->parameters(), torch::optim::AdamOptions(1e-3)), state(optimizer, named_parameters(*net)), store(comm, folder, {.keep = 2}) {}

  /// All that a checkpoint holds. The tensors are those of model and optimizer.
  std::vector<tw::NamedShard> shards() const {
    std::vector<tw::NamedShard> all = tw::module_shards(*net);  // parameters and buffers
    for (tw::NamedShard& each : state.shards()) all.push_back(std::move(each));
    return all;
  }

  /// The step that the newest undamaged checkpoint was made after; 0 where there is none. Collective.
  int64_t resume() {
    const auto step = store.newest_valid();
    if (!step) return 0;
    // Makes what the optimizer remembered then, such as "optimizer/conv1.weight/exp_avg"; a new optimizer has none.
    state.prepare(store.names(*step));
    const auto all = shards();
    store.load(*step, all);
    state.apply(all);  // counters, which are no tensors in the optimizer
    return *step;
  }

  void train(int64_t steps, int64_t save_every) {
    for (int64_t step = resume() + 1; step <= steps; ++step) {
      torch::manual_seed(static_cast<uint64_t>(step));  // or keep the generator's state yourself
      optimizer.zero_grad();
      net->forward(torch::randn({8, 4})).square().sum().backward();
      optimizer.step();
      store.poll();                                                                 // carries the writing on, and throws where it failed
      if (step % save_every == 0) store.save(step, shards(), "any text of yours");  // copies, and returns; written in the background
    }
    store.wait();  // or the last one is dropped
  }

  Net net;
  torch::optim::Adam optimizer;
  tw::OptimizerState state;
  tw::CheckpointStore store;
};
// docs/checkpoints.md ends

TEST(CheckpointStore, ResumesALoopOfOnesOwn) {
  const fs::path folder = fresh_folder();
  const auto parameters_after = [&](const fs::path& place, const std::vector<int64_t>& parts) {
    std::vector<at::Tensor> parameters;
    for (const int64_t steps : parts) {
      torch::manual_seed(0);
      Training run(world(), place);
      run.train(steps, 2);
      parameters = run.net->parameters();
    }
    return parameters;
  };
  const auto whole = parameters_after(folder / "whole", {6});
  const auto in_parts = parameters_after(folder / "parts", {3, 6});  // the second one resumes after step 2
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(whole[i].equal(in_parts[i])) << i;
}

std::vector<std::string> names_of(const std::vector<NamedShard>& shards) {
  std::vector<std::string> names;
  for (const NamedShard& shard : shards) names.push_back(shard.name);
  return names;
}

TEST(ModuleShards, ListsEachTensorOnce) {
  const Net net;
  const auto shards = tw::module_shards(*net);
  EXPECT_EQ(names_of(shards),
            (std::vector<std::string>{"body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "body.3.weight", "body.3.bias", "head.bias",
                                      "body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"}));
  EXPECT_EQ(shards[4].aliases, (std::vector<std::string>{"head.weight"}));
  EXPECT_EQ(shards[4].kind, tw::ShardKind::parameter);
  EXPECT_EQ(shards.back().kind, tw::ShardKind::buffer);
  EXPECT_EQ(tw::empty_submodules(*net), (std::vector<std::string>{"body.2", "body.4", "drop"}));
}

TEST(Export, IsReadByPlainLibTorch) {
  const fs::path folder = fresh_folder();
  torch::manual_seed(1);
  Net net;
  net->train();
  (void)net->forward(torch::randn({8, 4}));  // changes the buffers
  tw::CheckpointStore store(world(), folder, {.background = false});
  store.save(1, tw::module_shards(*net), R"({"empty_submodules": ["body.2", "body.4", "drop"]})");
  store.save(2, tw::module_shards(*net), "no JSON");
  if (world().rank() == 0) {
    const auto open = [&](int64_t step) { return tw::Checkpoint::open(folder / tw::concat("step_0000000", step)); };
    tw::export_for_libtorch(open(1), folder / "net.pt");
    tw::export_for_libtorch(open(2), folder / "listed.pt", tw::empty_submodules(*net));
    const auto x = torch::randn({5, 4});
    net->eval();
    const at::Tensor expected = net->forward(x);
    for (const char* name : {"net.pt", "listed.pt"}) {
      Net loaded;
      torch::load(loaded, (folder / name).string());
      loaded->eval();
      EXPECT_TRUE(loaded->forward(x).equal(expected));
      EXPECT_EQ(loaded->body[1]->as<torch::nn::BatchNorm1d>()->num_batches_tracked.item<int64_t>(), 1);
    }
    tw::export_for_libtorch(open(2), folder / "gaps.pt");  // "drop" is unknown, but gaps in numbering can be filled
    torch::nn::Sequential body(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6), torch::nn::ReLU(), torch::nn::Linear(6, 6));
    torch::serialize::InputArchive archive;
    torch::serialize::InputArchive nested;
    archive.load_from((folder / "gaps.pt").string());
    archive.read("body", nested);
    body->load(nested);
    EXPECT_TRUE(body[3]->as<torch::nn::Linear>()->weight.equal(net->head->weight));
    EXPECT_THROW(tw::export_for_libtorch(open(1), folder / "no/such/net.pt"), tw::FileError);
    try {
      const tw::testing::FullDisk full(100);
      tw::export_for_libtorch(open(1), folder / "full.pt");
      ADD_FAILURE() << "no exception";
    } catch (const tw::FileError& error) {
      EXPECT_EQ(error.path(), folder / "full.pt");
      EXPECT_TRUE(std::string(error.what()).ends_with(": cannot be written: File too large")) << error.what();
    }
    for (const auto& entry : fs::directory_iterator(folder)) EXPECT_FALSE(entry.path().filename().string().starts_with("full.pt")) << entry;
  }
  world().barrier();
}

TEST(Export, WritesOneSafetensorsFile) {
  const fs::path folder = fresh_folder();
  torch::manual_seed(2);
  const Net net;
  auto shards = tw::module_shards(*net);
  shards.push_back(tw::whole("optimizer/x/exp_avg", torch::ones({3}), tw::ShardKind::optimizer));
  tw::CheckpointStore store(world(), folder, {.background = false});
  store.save(1, shards, "");
  if (world().rank() == 0) {
    tw::export_safetensors(tw::Checkpoint::open(folder), folder / "net.safetensors");
    const tw::SafetensorsFile file(folder / "net.safetensors");
    EXPECT_EQ(file.names().size(), shards.size() - 1);
    EXPECT_TRUE(file.tensor("body.3.weight").equal(net->head->weight));
    EXPECT_EQ(file.metadata().at("head.weight"), "body.3.weight");
  }
  world().barrier();
}

// Every rank has some layers of a stack. Files have them under the names that the plain module gives them.
TEST(Export, SplitsStacksIntoLayers) {
  const fs::path folder = fresh_folder();
  constexpr int64_t layers = 5;
  torch::manual_seed(4);
  torch::nn::Sequential plain;
  for (int64_t layer = 0; layer < layers; ++layer) plain->push_back(torch::nn::Linear(4, 4));
  const int64_t begin = layers * world().rank() / world().size();
  const int64_t end = layers * (world().rank() + 1) / world().size();
  std::vector<NamedShard> shards;
  for (const char* name : {"weight", "bias"}) {
    std::vector<at::Tensor> all;
    for (int64_t layer = 0; layer < layers; ++layer) all.push_back(plain->named_parameters()[tw::concat(layer, '.', name)].detach());
    const at::Tensor stack = torch::stack(all);
    NamedShard& shard = shards.emplace_back(tw::whole(name, stack.slice(0, begin, end), tw::ShardKind::parameter));
    shard.global_shape = stack.sizes().vec();
    shard.offsets[0] = begin;
    shard.on_reshard = tw::OnReshard::shard;
    shard.layers = tw::concat("{}.", name);
  }
  tw::CheckpointStore store(world(), folder, {.background = false});
  store.save(1, shards, "");
  if (world().rank() == 0) {
    const tw::Checkpoint checkpoint = tw::Checkpoint::open(folder);
    EXPECT_EQ(checkpoint.index().tensors[0].layers, "{}.weight");
    tw::export_for_libtorch(checkpoint, folder / "plain.pt");
    torch::nn::Sequential loaded;
    for (int64_t layer = 0; layer < layers; ++layer) loaded->push_back(torch::nn::Linear(4, 4));
    torch::load(loaded, (folder / "plain.pt").string());
    tw::export_safetensors(checkpoint, folder / "plain.safetensors");
    const tw::SafetensorsFile file(folder / "plain.safetensors");
    EXPECT_EQ(file.names().size(), 2U * layers);
    for (const auto& each : plain->named_parameters()) {
      EXPECT_TRUE(loaded->named_parameters()[each.key()].equal(each.value())) << each.key();
      EXPECT_TRUE(file.tensor(each.key()).equal(each.value())) << each.key();
    }
  }
  world().barrier();
}

TEST(Export, HoldsOneLayerAtATime) {
  const fs::path folder = fresh_folder();
  constexpr int64_t layers = 16;
  torch::manual_seed(6);
  NamedShard stack = tw::whole("weight", torch::randn({layers, 64, 64}), tw::ShardKind::parameter);
  stack.layers = "{}.weight";
  tw::CheckpointStore store(world(), folder, {.background = false});
  store.save(1, {stack, tw::whole("bias", torch::randn({64, 64}), tw::ShardKind::buffer)}, "");
  if (world().rank() == 0) {
    const int64_t peak = tw::peak_bytes(c10::kCPU, [&] { tw::export_safetensors(tw::Checkpoint::open(folder), folder / "net.safetensors"); });
    EXPECT_LE(peak, 64 * 64 * 4 + 1024);
    const tw::SafetensorsFile file(folder / "net.safetensors");
    for (int64_t layer = 0; layer < layers; ++layer) EXPECT_TRUE(file.tensor(tw::concat(layer, ".weight")).equal(stack.tensor[layer])) << layer;
  }
  world().barrier();
}

using MakeOptimizer = std::function<std::shared_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

void train(const Net& net, torch::optim::Optimizer& optimizer, int steps) {
  Net trained = net;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    trained->forward(torch::randn({8, 4})).pow(2).sum().backward();
    optimizer.step();
  }
}

// A run resumed from a checkpoint has bitwise the parameters of an uninterrupted run.
void expect_resumes(const std::string& name, const MakeOptimizer& make, size_t tensors_per_parameter) {
  const fs::path folder = fresh_folder();
  torch::manual_seed(3);
  Net net;
  const auto optimizer = make(net->parameters());
  train(net, *optimizer, 3);

  tw::OptimizerState state(*optimizer, named_parameters(*net));
  auto shards = tw::module_shards(*net);
  const auto remembered = state.shards();
  EXPECT_EQ(remembered.size(), 7 * tensors_per_parameter) << name;  // 7 distinct parameters
  shards.insert(shards.end(), remembered.begin(), remembered.end());
  tw::CheckpointStore store(world(), folder, {.background = false});
  store.save(3, shards, "");

  Net other;
  const auto other_optimizer = make(other->parameters());
  tw::OptimizerState other_state(*other_optimizer, named_parameters(*other));
  train(other, *other_optimizer, 1);  // its own state, which must be dropped
  other_state.prepare(names_of(shards));
  auto other_shards = tw::module_shards(*other);
  const auto prepared = other_state.shards();
  other_shards.insert(other_shards.end(), prepared.begin(), prepared.end());
  (void)store.load(3, other_shards);
  other_state.apply(prepared);

  torch::manual_seed(4);
  train(net, *optimizer, 3);
  torch::manual_seed(4);
  train(other, *other_optimizer, 3);
  const auto expected = net->parameters();
  const auto found = other->parameters();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << name << ", parameter " << i;
  const auto buffers = net->buffers();
  for (size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(other->buffers()[i].equal(buffers[i])) << name;
}

TEST(OptimizerState, ResumesEveryOptimizer) {
  using namespace torch::optim;
  using Tensors = std::vector<at::Tensor>;
  expect_resumes("SGD", [](Tensors p) { return std::make_shared<SGD>(std::move(p), SGDOptions(0.01)); }, 0);
  expect_resumes("SGD with momentum", [](Tensors p) { return std::make_shared<SGD>(std::move(p), SGDOptions(0.01).momentum(0.9)); }, 1);
  expect_resumes("Adam", [](Tensors p) { return std::make_shared<Adam>(std::move(p), AdamOptions(0.01)); }, 3);
  expect_resumes("Adam with amsgrad", [](Tensors p) { return std::make_shared<Adam>(std::move(p), AdamOptions(0.01).amsgrad(true)); }, 4);
  expect_resumes("AdamW", [](Tensors p) { return std::make_shared<AdamW>(std::move(p), AdamWOptions(0.01)); }, 3);
  expect_resumes("RMSprop", [](Tensors p) { return std::make_shared<RMSprop>(std::move(p), RMSpropOptions(0.01)); }, 2);
  expect_resumes(
      "RMSprop, all on", [](Tensors p) { return std::make_shared<RMSprop>(std::move(p), RMSpropOptions(0.01).momentum(0.5).centered(true)); }, 4);
  expect_resumes("Adagrad", [](Tensors p) { return std::make_shared<Adagrad>(std::move(p), AdagradOptions(0.01)); }, 2);
}

TEST(OptimizerState, RefusesWhatItDoesNotKnow) {
  const Net net;
  torch::optim::LBFGS lbfgs(net->parameters());
  try {
    const tw::OptimizerState state(lbfgs, named_parameters(*net));
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("torch::optim::LBFGS"), std::string::npos) << error.what();
  }
  torch::optim::SGD sgd(net->parameters(), 0.1);
  EXPECT_THROW(tw::OptimizerState(sgd, std::vector<tw::NamedTensor>{}), tw::ContractError);
  tw::OptimizerState state(sgd, named_parameters(*net));
  EXPECT_TRUE(state.shards().empty());
  try {
    state.prepare({"body.0.weight", "optimizer/body.0.weight/exp_avg", "optimizer/other/momentum_buffer"});
    ADD_FAILURE() << "no exception";
  } catch (const tw::Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("optimizer/body.0.weight/exp_avg"), std::string::npos) << message;
    EXPECT_NE(message.find("optimizer/other/momentum_buffer"), std::string::npos) << message;
  }
  state.prepare({"optimizer/head.bias/momentum_buffer"});
  ASSERT_EQ(names_of(state.shards()), (std::vector<std::string>{"optimizer/head.bias/momentum_buffer"}));
  EXPECT_EQ(state.shards()[0].kind, tw::ShardKind::optimizer);
  state.prepare({});
  EXPECT_TRUE(state.shards().empty());
}

}  // namespace module_state_test

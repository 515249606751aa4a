// SPDX-License-Identifier: Apache-2.0
// A model and its optimizer, saved by any number of ranks and loaded by any other: every slice equals the whole bit for bit. With 3 ranks, 1, 2 and 3
// save, and 1, 2 and 3 load.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <tw/state.hpp>
#include <tw/tensor_parallel.hpp>

namespace reshard_test {

namespace fs = std::filesystem;
using namespace tw::tensor_parallel;
using tw::testing::world;

/// Split and ordinary layers; sizes that few numbers of ranks divide; a weight under two names, of which the first belongs to an ordinary module.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(const tw::Communicator& comm)
      : table(VocabParallelEmbedding(comm, 17, 5)),
        tied(register_module("a_tied_module", std::make_shared<torch::nn::Module>())),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({5})))),
        column(register_module("column", ColumnParallelLinear(comm, 5, 7))),
        row(register_module("row", RowParallelLinear(comm, 7, 3))) {
    tied->register_parameter("vectors", table->weight);
    register_module("table", table);
  }
  at::Tensor forward(const at::Tensor& indices) { return row(column(norm(table(indices))).tanh()); }

  VocabParallelEmbedding table;
  std::shared_ptr<torch::nn::Module> tied;
  torch::nn::LayerNorm norm;
  ColumnParallelLinear column;
  RowParallelLinear row;
};
TORCH_MODULE(Net);

std::vector<tw::NamedTensor> named_parameters(const Net& net) {
  std::vector<tw::NamedTensor> tensors;
  for (const auto& entry : net->named_parameters()) tensors.push_back({entry.key(), entry.value()});
  return tensors;
}

/// The objects of a run.
struct Run {
  explicit Run(const tw::Communicator& comm, uint64_t seed) : net((torch::manual_seed(seed), comm)), optimizer(net->parameters(), 0.01) {}

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      torch::manual_seed(static_cast<uint64_t>(100 + step));
      optimizer.zero_grad();
      net(torch::randint(17, {12})).pow(2).sum().backward();
      optimizer.step();
    }
  }
  /// Shards of parameters and of their optimizer state.
  std::vector<tw::NamedShard> shards(tw::OptimizerState& state) const {
    auto all = sliced(*net, tw::module_shards(*net));
    const auto remembered = sliced(*net, state.shards());
    all.insert(all.end(), remembered.begin(), remembered.end());
    return all;
  }

  Net net;
  torch::optim::Adam optimizer;
};

std::vector<std::string> names_of(const std::vector<tw::NamedShard>& shards) {
  std::vector<std::string> names;
  for (const tw::NamedShard& shard : shards) names.push_back(shard.name);
  return names;
}

void save(const tw::Communicator& comm, const fs::path& folder) {
  Run run(comm, 1);
  run.train(2);
  tw::OptimizerState state(run.optimizer, named_parameters(run.net));
  tw::CheckpointStore store(comm, folder, {.background = false});
  store.save(2, run.shards(state), "");
  if (comm.rank() != 0) return;
  const auto checkpoint = tw::Checkpoint::open(folder);  // as one process reads it, with the shapes of LibTorch's layers
  const auto shape_of = [&](const char* name) { return checkpoint.read(name).sizes().vec(); };
  EXPECT_EQ(shape_of("table.weight"), (std::vector<int64_t>{17, 5}));
  EXPECT_EQ(shape_of("column.weight"), (std::vector<int64_t>{7, 5}));
  EXPECT_EQ(shape_of("column.bias"), (std::vector<int64_t>{7}));
  EXPECT_EQ(shape_of("row.weight"), (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(shape_of("row.bias"), (std::vector<int64_t>{3}));
  EXPECT_EQ(shape_of("optimizer/row.weight/exp_avg"), (std::vector<int64_t>{3, 7}));
}

void load(const tw::Communicator& comm, const fs::path& folder, bool same_ranks) {
  Run run(comm, 2);  // other values, which loading must replace
  run.train(1);
  tw::OptimizerState state(run.optimizer, named_parameters(run.net));
  const auto shards = run.shards(state);
  EXPECT_EQ(shards.size(), 7 + 3 * 7U);
  {
    const tw::CheckpointStore store(comm, folder);
    (void)store.load(2, shards);
  }
  state.apply(shards);
  const auto checkpoint = tw::Checkpoint::open(folder);
  for (const tw::NamedShard& shard : shards) {
    at::Tensor whole = checkpoint.read(shard.name);
    for (int64_t d = 0; d < whole.dim(); ++d) whole = whole.narrow(d, shard.offsets[static_cast<size_t>(d)], shard.tensor.size(d));
    EXPECT_TRUE(shard.tensor.equal(whole)) << shard.name;
  }
  if (!same_ranks) return;
  Run uninterrupted(comm, 1);  // the loaded run must continue like this one
  uninterrupted.train(2);
  uninterrupted.train(2);
  run.train(2);
  const auto expected = uninterrupted.net->parameters();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(run.net->parameters()[i].equal(expected[i])) << i;
}

/// Saves with `savers` ranks and loads with `loaders`; the other ranks wait.
void expect_reshards(const fs::path& folder, int savers, int loaders) {
  SCOPED_TRACE(tw::concat("saved on ", savers, ", loaded on ", loaders));
  const tw::Communicator saving = world().split(world().rank() < savers ? 0 : 1, world().rank());
  const tw::Communicator loading = world().split(world().rank() < loaders ? 0 : 1, world().rank());
  if (world().rank() == 0) fs::remove_all(folder);
  world().barrier();
  if (world().rank() < savers) {
    EXPECT_NO_THROW(save(saving, folder));
  }
  world().barrier();
  if (world().rank() < loaders) {
    EXPECT_NO_THROW(load(loading, folder, savers == loaders));
  }
  world().barrier();
}

TEST(Reshard, BetweenAnyNumbersOfRanks) {
  const fs::path folder = fs::path(testing::TempDir()) / tw::concat("tw_tensor_parallel_", world().size());
  for (int savers = 1; savers <= world().size(); ++savers) {
    for (int loaders = 1; loaders <= world().size(); ++loaders) expect_reshards(folder, savers, loaders);
  }
  if (world().rank() == 0) fs::remove_all(folder);
}

TEST(Reshard, KnowsTiedParametersByEveryName) {
  torch::manual_seed(1);
  const Net net(world());
  const auto shards = sliced(*net, tw::module_shards(*net));
  EXPECT_EQ(names_of(shards), (std::vector<std::string>{"a_tied_module.vectors", "norm.weight", "norm.bias", "column.weight", "column.bias",
                                                        "row.weight", "row.bias"}));
  EXPECT_EQ(shards[0].aliases, (std::vector<std::string>{"table.weight"}));
  EXPECT_EQ(shards[0].global_shape, (std::vector<int64_t>{17, 5}));
  EXPECT_EQ(shards[0].on_reshard, tw::OnReshard::shard);
  EXPECT_EQ(shards[1].on_reshard, tw::OnReshard::replicate);
}

TEST(Reshard, RefusesShardsOfAnotherShape) {
  torch::manual_seed(1);
  const Net net(world());
  EXPECT_THROW(sliced(*net, {tw::whole("row.weight", torch::zeros({21}), tw::ShardKind::parameter)}), tw::ContractError);
}

}  // namespace reshard_test

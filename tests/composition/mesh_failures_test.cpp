// SPDX-License-Identifier: Apache-2.0
// One rank fails in a step: all ranks throw, wherever they wait, and train on with the same object.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <tw/mpi/error.hpp>
#include <utility>

#include "mesh/cells.hpp"

namespace mesh_failures_test {

using namespace tw::testing::mesh;
using tw::testing::message_of;
using tw::testing::world;

void expect_contains(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

// Errors that all ranks find before the passes leave the model as it was.
TEST(MeshFailures, OfAllRanksAlikeLetTheNextStepFollow) {
  const TableModel model = table_models().front();
  const tw::Mesh mesh(world(), {{"data", -1}});
  Parallel parallel = model.parallel(mesh, {});
  const Batch batch = model.batch(4);
  const auto step = [&](const Tensors& inputs) { return parallel.model.train_step(inputs, batch.targets, model.loss()); };
  expect_contains(message_of([&] { step({batch.inputs[0].narrow(0, 0, 3)}); }), "have different numbers of rows");
  expect_contains(message_of([&] { parallel.model.clip_grad_norm(0); }), "max_norm must be positive");
  EXPECT_GT(step(batch.inputs), 0);
}

/// Makes a step that fails on one rank; all other ranks throw RevokedError. @return the message on this rank
std::string failure_of(int rank, const std::function<void()>& step) {
  std::string message = "nothing thrown";
  try {
    step();
  } catch (const tw::RevokedError& error) {
    EXPECT_NE(world().rank(), rank);
    message = error.what();
  } catch (const std::exception& error) {
    EXPECT_EQ(world().rank(), rank) << error.what();
    message = error.what();
  }
  return message;
}

/// Makes a step whose loss fails on one rank, in its second micro-batch. @return the message on this rank
std::string fail(Parallel& parallel, const TableModel& model, const Batch& batch, int rank, bool out_of_memory) {
  int calls = 0;
  const tw::Loss broken = [&, loss = model.loss()](const Tensors& y, const Tensors& t) {
    if (world().rank() == rank && ++calls == 2) {
      if (out_of_memory) TORCH_CHECK_WITH(OutOfMemoryError, false, "the loss is broken");
      throw std::runtime_error("the loss is broken");
    }
    return loss.mean(y, t);
  };
  return failure_of(rank, [&] {
    try {
      parallel.model.train_step(batch.inputs, batch.targets, broken);
    } catch (const c10::OutOfMemoryError&) {
      EXPECT_TRUE(out_of_memory);
      throw;
    }
  });
}

/// The tensors of a model and of its optimizer after three updates; before some of them, steps fail. @param failures by update, ranks
std::vector<at::Tensor> trained(const TableModel& model, const tw::MeshShape& shape, const std::map<int, std::vector<int>>& failures) {
  const tw::Mesh mesh(world(), shape.axes());
  tw::ParallelOptions options = Settings{.seed = 3, .micro_batches = 2}.options();
  options.profile_cache = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "mesh_failures";  // the same stages each time
  Parallel parallel = model.parallel(mesh, options);
  torch::optim::Adam adam(parallel.model.parameters(), 0.01);
  const auto batch_of = [&](int number) {
    torch::manual_seed(static_cast<uint64_t>(1000 * number + parallel.model.place()));
    return model.batch(4);
  };
  for (int update = 0; update < 3; ++update) {
    const auto found = failures.find(update);
    for (size_t i = 0; found != failures.end() && i < found->second.size(); ++i) {
      const int rank = found->second[i];
      expect_contains(fail(parallel, model, batch_of(50 + update), rank, /*out_of_memory=*/i % 2 == 1), "the loss is broken");
      for (const at::Tensor& each : parallel.model.parameters()) EXPECT_FALSE(each.grad().defined());
      adam.zero_grad();
    }
    const Batch batch = batch_of(update);
    EXPECT_GT(parallel.model.train_step(batch.inputs, batch.targets, model.loss()), 0);
    parallel.model.clip_grad_norm(1);
    adam.step();
    adam.zero_grad();
  }
  std::vector<at::Tensor> values;
  for (const tw::NamedShard& each : parallel.model.shards()) values.push_back(each.tensor.detach().clone());
  world().barrier();  // the mesh stays usable
  mesh.comm().barrier();
  return values;
}

/// The last rank that computes a loss: those of other stages compute none.
int rank_with_loss(const tw::MeshShape& shape) {
  const int stages = along(shape, "stage");
  for (int rank = shape.ranks() - 1; rank >= 0; --rank) {
    if (stages == 1 || shape.coordinates_of(rank)[shape.index_of("stage")] == stages - 1) return rank;
  }
  return 0;
}

/// Split layers communicate on the user's mesh, where nothing can be made again, unless they were captured.
bool can_go_on(const TableModel& model, const tw::MeshShape& shape) {
  return along(shape, "tensor") == 1 || (model.kind == Kind::split_module && along(shape, "stage") > 1);
}

// Training goes on with the same object, as if the failed steps had not been: to the bit. On half of the meshes, or with TW_ALL_CELLS on all.
TEST(MeshFailures, OfOneRankLeaveNoTrace) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  size_t cell = 0;
  for (const TableModel& model : table_models()) {
    const bool is_split = model.name == "split module";
    if (model.name != "gpt" && model.name != "residual" && model.name != "tied" && model.name != "layers" && !is_split) continue;
    for (const tw::MeshShape& shape : shapes_of(world().size())) {
      if (promise_of(model, shape).kind != Promise::Kind::equal || !can_go_on(model, shape)) continue;
      if (is_split && along(shape, "tensor") == 1) continue;
      if (++cell % 2 == 0 && !all) continue;
      SCOPED_TRACE(model.name + " on " + shape.describe());
      const int last = rank_with_loss(shape);
      const std::vector<at::Tensor> expected = trained(model, shape, {});
      const std::vector<at::Tensor> ours = trained(model, shape, {{0, {last}}, {2, {last, last}}});
      EXPECT_EQ(ours.size(), expected.size());
      for (size_t i = 0; i < std::min(ours.size(), expected.size()); ++i) EXPECT_TRUE(ours[i].equal(expected[i])) << "tensor " << i;
    }
  }
}

// forward() is not collective over the whole mesh, so it cannot begin again.
TEST(MeshFailures, OfOneRankLetForwardFollowTheNextStep) {
  const int last = world().size() - 1;
  const TableModel model = table_models().front();
  const tw::Mesh mesh(world(), {{"shard", -1}});
  Parallel parallel = model.parallel(mesh, {.micro_batches = 2});
  torch::manual_seed(3);
  const Batch batch = model.batch(4);
  expect_contains(fail(parallel, model, batch, last, false), "the loss is broken");
  if (world().size() > 1)
    expect_contains(message_of([&] { parallel.model.forward(batch.inputs); }), "forward() can follow after the next train_step()");
  EXPECT_GT(parallel.model.train_step(batch.inputs, batch.targets, model.loss()), 0);
  EXPECT_EQ(parallel.model.forward(batch.inputs).front().size(0), 4);
}

// Before the first update memory() makes its passes twice: on all ranks, although some had finished their passes when the first update failed.
TEST(MeshFailures, OfOneRankInTheFirstStepLetMemoryFollow) {
  const std::vector<TableModel> models = table_models();
  const TableModel& model = *std::ranges::find(models, "layers", &TableModel::name);
  const tw::Mesh mesh(world(), {{"layer", -1}});
  Parallel parallel = model.parallel(mesh, {});
  torch::manual_seed(3);
  const Batch batch = model.batch(4);
  bool fails = world().rank() == 0;  // in the first layer, for whose backward pass no other rank waits
  if (fails) {
    parallel.model.parameters().front().register_hook([&](const at::Tensor& gradient) {
      if (std::exchange(fails, false)) throw std::runtime_error("the hook is broken");
      return gradient;
    });
  }
  torch::optim::SGD sgd(parallel.model.parameters(), 0.1);
  expect_contains(message_of([&] { parallel.model.train_step(batch.inputs, batch.targets, model.loss()); }), "the hook is broken");
  EXPECT_GT(parallel.model.memory(batch.inputs, batch.targets, model.loss(), sgd).peak().held.together(), 0);
  EXPECT_GT(parallel.model.train_step(batch.inputs, batch.targets, model.loss()), 0);
}

TEST(MeshFailures, OfOneRankEndReplicasThatTrainApart) {
  const TableModel model = table_models().front();
  const tw::Mesh mesh(world(), {{"data", -1}});
  Parallel parallel = model.parallel(mesh, {.micro_batches = 2, .replicas = tw::ReplicaSync::independent});
  torch::manual_seed(3);
  const Batch batch = model.batch(4);
  const bool fails = world().rank() == 0;
  const std::string message = fail(parallel, model, batch, 0, false);
  if (fails) expect_contains(message, "the loss is broken");
  world().barrier();
  if (!fails || world().size() == 1) return;
  expect_contains(message_of([&] { parallel.model.train_step(batch.inputs, batch.targets, model.loss()); }), "make a new one");
}

// The rank with the other slices waits in a forward pass.
TEST(MeshFailures, OfOneRankInABlockAreNoFailuresOfTheOthers) {
  using tw::tensor_parallel::RowParallelLinear;
  using tw::tensor_parallel::RowParallelLinearOptions;
  const tw::Mesh mesh(world(), {{"stage", 2}, {"tensor", 2}});
  bool fails = false;
  const tw::pipeline::BlockFactory make = [&] {
    RowParallelLinear layer(mesh["tensor"], 6, 6, RowParallelLinearOptions{.input_is_parallel = false});
    const auto forward = [&fails, layer](const at::Tensor& x) mutable {
      if (fails) throw std::runtime_error("the block is broken");
      return layer(x);
    };
    return tw::pipeline::Block{layer.ptr(), forward};
  };
  torch::manual_seed(3);
  const at::Tensor x = torch::ones({4, 6});
  tw::ParallelModel model = tw::parallelize(mesh, std::vector<tw::pipeline::BlockFactory>{make, make}, {x});
  fails = world().rank() == 3;
  expect_contains(failure_of(3, [&] { model.train_step(x, x, torch::nn::MSELoss()); }), "the block is broken");
  world().barrier();
}

TEST(MeshFailures, OfOneRankEndModelsWithSplitLayers) {
  const int last = world().size() - 1;
  for (const TableModel& model : table_models()) {
    if (model.name != "split blocks" && model.name != "split module") continue;
    for (const tw::MeshShape& shape : shapes_of(world().size())) {
      if (promise_of(model, shape).kind != Promise::Kind::equal || can_go_on(model, shape)) continue;
      SCOPED_TRACE(model.name + " on " + shape.describe());
      const tw::Mesh mesh(world(), shape.axes());
      const Settings settings{.seed = 3, .micro_batches = 2};
      Parallel parallel = model.parallel(mesh, settings.options());
      torch::manual_seed(static_cast<uint64_t>(parallel.model.place()));
      const Batch batch = model.batch(4);
      EXPECT_GT(parallel.model.train_step(batch.inputs, batch.targets, model.loss()), 0);
      expect_contains(fail(parallel, model, batch, last, false), "the loss is broken");
      expect_contains(message_of([&] { parallel.model.train_step(batch.inputs, batch.targets, model.loss()); }),
                      "a call of this ParallelModel has failed");
      EXPECT_EQ(mesh.comm().revoked(), false);
      world().barrier();
    }
  }
}

}  // namespace mesh_failures_test

// SPDX-License-Identifier: Apache-2.0
// A checkpoint of any mesh, loaded on any other: training goes on as in one process that was never interrupted. After two updates before and two
// after, parameters and optimizer state agree to 1e-12 (SGD) or 1e-9 (AdamW) in float64; on the same mesh to the bit.
#include "mpi_test.hpp"

#include <filesystem>
#include <tw/comm/full_tensors.hpp>
#include <tw/state.hpp>

#include "mesh/cells.hpp"

namespace mesh_checkpoint_test {

using namespace tw::testing::mesh;
using tw::testing::world;

constexpr int64_t before = 2;
constexpr int64_t after = 2;
constexpr int64_t rows = 12;  // of an update, over all places

Batch batch_of(const TableModel& model, int64_t update, tw::pipeline::Rows part) {
  torch::manual_seed(static_cast<uint64_t>(200 + update));
  Batch batch = model.batch(rows);
  for (at::Tensor& each : batch.inputs) each = each.narrow(0, part.begin, part.count());
  for (at::Tensor& each : batch.targets) each = each.narrow(0, part.begin, part.count());
  return batch;
}

/// A model and its optimizer on a mesh.
struct Run {
  Run(const TableModel& of, const Settings& settings, const tw::MeshShape& shape)
      : model(of),
        mesh(world(), shape.axes()),
        parallel(of.parallel(mesh, settings.options())),
        optimizer(settings.optimizer(parallel.model.parameters())) {}

  void train(int64_t from, int64_t to) {
    for (int64_t update = from; update < to; ++update) {
      const Batch batch = batch_of(model, update, tw::pipeline::part_of({0, rows}, parallel.model.places(), parallel.model.place()));
      optimizer->zero_grad();
      parallel.model.train_step(batch.inputs, batch.targets, model.loss());
      optimizer->step();
    }
  }

  std::map<std::string, at::Tensor> state() {
    std::vector<tw::NamedShard> shards = parallel.model.shards();
    for (const tw::NamedShard& each : tw::OptimizerState(*optimizer, parallel.model.optimized()).shards()) shards.push_back(each);
    std::erase_if(shards, [](const tw::NamedShard& each) { return !each.tensor.is_floating_point(); });
    std::map<std::string, at::Tensor> whole;
    tw::for_each_full_tensor(mesh.comm(), shards, [&](const std::string& name, const at::Tensor& values) { whole[name] = values.clone(); });
    return whole;
  }

  const TableModel& model;
  tw::Mesh mesh;
  Parallel parallel;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

std::map<std::string, at::Tensor> in_one_process(const TableModel& model, const Settings& settings) {
  Reference reference(model.one_process(settings, 1), model.loss(), settings, false);
  for (int64_t update = 0; update < before + after; ++update) reference.step({batch_of(model, update, {0, rows})}, update);
  return reference.state();
}

bool is_bitwise_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return x.first == y.first && x.second.equal(y.second); });
}

void expect_loads(const TableModel& model, const std::vector<tw::MeshShape>& shapes, uint64_t seed, size_t loads) {
  Settings settings = Settings::drawn(seed);
  settings.clip = false;
  const auto expected = in_one_process(model, settings);
  const auto directory = std::filesystem::path(std::getenv("TEST_TMPDIR")) / tw::concat("mesh", seed);
  for (size_t from = 0; from < shapes.size(); ++from) {
    std::map<std::string, at::Tensor> uninterrupted;
    tw::CheckpointStore store(world(), directory);
    {
      Run saved(model, settings, shapes[from]);
      saved.train(0, before);
      saved.parallel.model.save(store, before, *saved.optimizer, "text");
      store.wait();
      saved.train(before, before + after);
      uninterrupted = saved.state();
    }
    for (size_t i = 0; i < loads; ++i) {
      const size_t to = (from + i * (i + 1) / 2) % shapes.size();
      SCOPED_TRACE(model.name + ": saved on " + shapes[from].describe() + ", loaded on " + shapes[to].describe());
      Run loaded(model, settings, shapes[to]);
      loaded.train(before, before + 1);  // what it gathers and remembers is then out of date
      EXPECT_EQ(loaded.parallel.model.load(store, before, *loaded.optimizer), "text");
      loaded.train(before, before + after);
      const auto state = loaded.state();
      const auto [error, name] = largest_error(state, expected);
      EXPECT_LE(error, settings.adam ? 1e-9 : 1e-12) << name;
      EXPECT_TRUE(to != from || is_bitwise_equal(state, uninterrupted)) << "the same mesh";
    }
    store.remove_all();
  }
  if (world().rank() == 0) std::filesystem::remove_all(directory);
}

std::vector<tw::MeshShape> meshes_for(const TableModel& model) {
  std::vector<tw::MeshShape> shapes = shapes_of(world().size());
  std::erase_if(shapes, [&](const tw::MeshShape& shape) { return promise_of(model, shape).kind != Promise::Kind::equal; });
  return shapes;
}

/// TW_ALL_CELLS: more loads, and another optimizer, as make accept runs it.
TEST(MeshCheckpoints, AreLoadedOnOtherMeshes) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  for (const TableModel& model : table_models()) {
    if (model.name != "gpt" && model.name != "split blocks" && model.name != "layers") continue;
    for (uint64_t seed = 1; seed <= (all ? 4 : 1); ++seed) EXPECT_NO_THROW(expect_loads(model, meshes_for(model), seed, all ? 5 : 2));
  }
}

}  // namespace mesh_checkpoint_test

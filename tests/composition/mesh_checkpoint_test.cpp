// SPDX-License-Identifier: Apache-2.0
// A checkpoint of any mesh, loaded on any other, also of fewer or more ranks: training goes on as in one process that was never interrupted. After
// two updates before and two after, parameters and optimizer state agree to 1e-12 (SGD) or 1e-9 (AdamW) in float64; on the same mesh to the bit.
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

/// Shapes of the meshes on the first ranks of the world.
struct FirstRanks {
  FirstRanks(const TableModel& model, int ranks)
      : has_this(world().rank() < ranks), comm(world().split(has_this ? "first" : "others")), shapes(shapes_of(ranks)) {
    std::erase_if(shapes, [&](const tw::MeshShape& shape) { return promise_of(model, shape).kind != Promise::Kind::equal; });
  }

  bool has_this;          // rank
  tw::Communicator comm;  // of the first ranks, or of the others
  std::vector<tw::MeshShape> shapes;
};

/// A mesh of the first ranks.
struct Place {
  const FirstRanks* ranks;
  tw::MeshShape shape;
};

/// A model and its optimizer on a mesh.
struct Run {
  Run(const TableModel& of, const Settings& settings, const Place& place)
      : model(of),
        mesh(place.ranks->comm, place.shape.axes()),
        parallel(of.parallel(mesh, fitting(settings, of, place.shape).options())),
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

std::filesystem::path directory() { return std::filesystem::path(std::getenv("TEST_TMPDIR")) / "mesh"; }

/// Saves after the first updates, and goes on. @return the state in the end
std::map<std::string, at::Tensor> saved_and_trained(const TableModel& model, const Settings& settings, const Place& from) {
  tw::CheckpointStore store(from.ranks->comm, directory());
  Run run(model, settings, from);
  run.train(0, before);
  run.parallel.model.save(store, before, *run.optimizer, "text");
  store.wait();
  run.train(before, before + after);
  return run.state();
}

std::map<std::string, at::Tensor> loaded_and_trained(const TableModel& model, const Settings& settings, const Place& to) {
  const tw::CheckpointStore store(to.ranks->comm, directory());
  Run run(model, settings, to);
  run.train(before, before + 1);  // what it gathers and remembers is then out of date
  EXPECT_EQ(run.parallel.model.load(store, before, *run.optimizer), "text");
  run.train(before, before + after);
  return run.state();
}

/// Saves on a mesh, and loads on others. Collective over the world. @return the number of loads
int expect_loads(const TableModel& model, uint64_t seed, const Place& from, const std::vector<Place>& others) {
  Settings settings = Settings::drawn(seed);
  settings.clip = false;
  settings.joined = false;
  const auto expected = in_one_process(model, settings);
  std::map<std::string, at::Tensor> uninterrupted;
  if (from.ranks->has_this) {
    EXPECT_NO_THROW(uninterrupted = saved_and_trained(model, settings, from));
  }
  world().barrier();
  for (const Place& to : others) {
    SCOPED_TRACE(model.name + ": saved on " + from.shape.describe() + ", loaded on " + to.shape.describe());
    if (to.ranks->has_this) {
      std::map<std::string, at::Tensor> state;
      EXPECT_NO_THROW(state = loaded_and_trained(model, settings, to));
      const auto [error, name] = largest_error(state, expected);
      EXPECT_LE(error, settings.adam ? 1e-9 : 1e-12) << name;
      EXPECT_TRUE(to.shape.describe() != from.shape.describe() || is_bitwise_equal(state, uninterrupted)) << "the same mesh";
    }
    world().barrier();
  }
  if (world().rank() == 0) std::filesystem::remove_all(directory());
  world().barrier();
  return static_cast<int>(others.size());
}

/// From each mesh of all ranks to `loads` of them; and from one to one of fewer ranks, if there are any, and back.
int expect_some_loads(const TableModel& model, uint64_t seed, const std::vector<Place>& whole, const std::vector<Place>& fewer, size_t loads) {
  int count = 0;
  for (size_t from = 0; from < whole.size(); ++from) {
    std::vector<Place> others;
    for (size_t i = 0; i < loads; ++i) others.push_back(whole[(from + i * (i + 1) / 2) % whole.size()]);
    if (!fewer.empty() && from == 0) others.push_back(fewer.back());
    count += expect_loads(model, seed, whole[from], others);
  }
  if (!fewer.empty()) count += expect_loads(model, seed, fewer.back(), {whole.back()});
  return count;
}

/// TW_ALL_CELLS, as make accept runs it: on up to four ranks from every mesh of any number of ranks to every other, and on more ranks more of them.
TEST(MeshCheckpoints, AreLoadedOnOtherMeshes) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  for (const TableModel& model : table_models()) {
    const bool is_chosen = model.name == "gpt" || model.name == "split blocks" || model.name == "split layers in parallel";
    if (!is_chosen && (model.name != "split module" || !all)) continue;
    std::vector<std::unique_ptr<FirstRanks>> numbers;
    std::vector<Place> fewer;
    for (int ranks = 1; ranks <= world().size(); ++ranks) {
      numbers.push_back(std::make_unique<FirstRanks>(model, ranks));
      if (ranks == world().size()) continue;
      for (const tw::MeshShape& shape : numbers.back()->shapes) fewer.push_back({numbers.back().get(), shape});
    }
    std::vector<Place> whole;
    for (size_t i = 0; i < numbers.back()->shapes.size(); i += all ? 1 : 3) whole.push_back({numbers.back().get(), numbers.back()->shapes[i]});
    int count = 0;
    if (!all || world().size() > 4) {
      for (uint64_t seed = 1; seed <= (all ? 4 : 1); ++seed) count += expect_some_loads(model, seed, whole, fewer, all ? 5 : 2);
    } else {
      std::vector<Place> places = fewer;
      places.insert(places.end(), whole.begin(), whole.end());
      for (size_t from = 0; from < places.size(); ++from) count += expect_loads(model, 1 + from % 4, places[from], places);
    }
    if (world().rank() == 0)
      std::printf("%s: %d checkpoints loaded, from and on %zu meshes\n", model.name.c_str(), count, whole.size() + fewer.size());
  }
}

}  // namespace mesh_checkpoint_test

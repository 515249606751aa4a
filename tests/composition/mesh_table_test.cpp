// SPDX-License-Identifier: Apache-2.0
// The table: models x meshes x settings, each equal to one process. After three updates, losses, parameters, buffers and optimizer state agree to 32
// times the difference that another order of summation makes in one process, at least 1e-13 and at most 1e-12 (SGD) or 1e-9 (AdamW), in float64. All
// holders of an element have the same bits.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <cstdlib>
#include <tw/comm/full_tensors.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/tensor/content_hash.hpp>

#include "mesh/cells.hpp"

namespace mesh_table_test {

using namespace tw::testing::mesh;
using tw::testing::message_of;
using tw::testing::world;

constexpr int64_t updates = 3;

/// The batches of an update, by place.
std::vector<Batch> batches_of(const TableModel& model, const Settings& settings, int places, int64_t update) {
  torch::manual_seed(tw::derived_seed(settings.seed, static_cast<uint64_t>(100 + update)));
  std::vector<Batch> batches;
  for (int place = 0; place < places; ++place) batches.push_back(model.batch(settings.rows(place, update)));
  return batches;
}

double sum_of_squares(const Tensors& tensors) {
  double sum = 0;
  for (const at::Tensor& each : tensors) sum += each.square().sum().item<double>();
  return sum;
}

struct Outcome {
  std::vector<double> losses;
  double evaluated = 0;  // sum of the squares of all outputs, in evaluation mode
  std::map<std::string, at::Tensor> state;
};

Outcome in_one_process(const TableModel& model, const Settings& settings, const tw::MeshShape& shape, bool is_other) {
  Reference reference(model.one_process(settings, along(shape, "stage")), model.loss(), settings, is_other);
  Outcome outcome;
  for (int64_t update = 0; update < updates; ++update) {
    for (int64_t step = update * settings.steps; step < (update + 1) * settings.steps; ++step) {
      outcome.losses.push_back(reference.add(batches_of(model, settings, along(shape, "data") * along(shape, "shard"), step), step));
    }
    reference.finish();
  }
  outcome.state = reference.state();
  for (const Batch& batch : batches_of(model, settings, along(shape, "data") * along(shape, "shard"), 1)) {
    if (batch.inputs.front().size(0) > 0) outcome.evaluated += sum_of_squares(reference.evaluate(batch.inputs));
  }
  return outcome;
}

/// A part of the model on this rank, by content.
struct HeldPart {
  std::string name;
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  uint64_t hash;
  static constexpr auto fields = std::tuple(&HeldPart::name, &HeldPart::offsets, &HeldPart::sizes, &HeldPart::hash);
};

/// Names of parts that ranks hold with different bits.
std::string differing(const tw::Communicator& comm, const std::vector<tw::NamedShard>& shards) {
  std::vector<HeldPart> mine;
  for (const tw::NamedShard& each : shards) {
    if (each.tensor.numel() > 0) mine.push_back({each.name, each.offsets, each.tensor.sizes().vec(), tw::content_hash(each.tensor)});
  }
  std::map<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>, uint64_t> known;
  std::string names;
  for (const auto& of_rank : tw::allgather_objects(comm, mine)) {
    for (const HeldPart& each : of_rank) {
      const auto [found, is_new] = known.insert({{each.name, each.offsets, each.sizes}, each.hash});
      if (found->second != each.hash) names += each.name + " ";
    }
  }
  return names;
}

Outcome on_mesh(const TableModel& model, const Settings& settings, const tw::Mesh& mesh) {
  Parallel parallel = model.parallel(mesh, settings.options());
  tw::ParallelModel& trained = parallel.model;
  const auto optimizer = settings.optimizer(trained.parameters());
  Outcome outcome;
  for (int64_t update = 0; update < updates; ++update) {
    optimizer->zero_grad();
    for (int64_t step = update * settings.steps; step < (update + 1) * settings.steps; ++step) {
      const Batch batch = batches_of(model, settings, trained.places(), step).at(static_cast<size_t>(trained.place()));
      outcome.losses.push_back(trained.train_step(batch.inputs, batch.targets, model.loss()));
    }
    if (settings.clip) trained.clip_grad_norm(Reference::max_norm);
    optimizer->step();
  }
  trained.eval();
  const Batch batch = batches_of(model, settings, trained.places(), 1).at(static_cast<size_t>(trained.place()));
  const tw::OutputSum squares = [](const Tensors& outputs, const Tensors& /*targets*/) { return sum_of_squares(outputs); };
  outcome.evaluated = trained.evaluate(batch.inputs, batch.targets, {squares}, 2).at(0);
  std::vector<tw::NamedShard> shards = trained.shards();
  std::erase_if(shards, [](const tw::NamedShard& each) { return each.kind == tw::ShardKind::counter; });
  for (const tw::NamedShard& each : tw::OptimizerState(*optimizer, trained.optimized()).shards()) {
    if (each.kind == tw::ShardKind::optimizer && each.tensor.is_floating_point()) shards.push_back(each);
  }
  EXPECT_EQ(differing(mesh.comm(), shards), "");
  tw::for_each_full_tensor(mesh.comm(), shards, [&](const std::string& name, const at::Tensor& whole) { outcome.state[name] = whole.clone(); });
  return outcome;
}

void expect_equal(const TableModel& model, const Settings& settings, const tw::Mesh& mesh) {
  const Outcome ours = on_mesh(model, settings, mesh);
  const Outcome forward = in_one_process(model, settings, mesh.shape(), false);
  const Outcome backward = in_one_process(model, settings, mesh.shape(), true);
  const auto [order, ordered] = largest_error(backward.state, forward.state);
  const double most = settings.adam ? 1e-9 : 1e-12;
  EXPECT_LE(32 * order, most) << ordered << ": the order of summation matters too much";
  const auto [error, name] = largest_error(ours.state, forward.state);
  EXPECT_LE(error, std::clamp(32 * order, 1e-13, most)) << name << "; the order of summation makes " << order;
  EXPECT_NEAR(ours.evaluated, forward.evaluated, 10 * most * forward.evaluated);
  for (size_t i = 0; i < ours.losses.size(); ++i)
    EXPECT_NEAR(ours.losses[i], forward.losses[i], most * (1 + std::abs(forward.losses[i]))) << "loss " << i;
}

class MeshTable : public ::testing::TestWithParam<size_t> {};

struct Count {
  int equal = 0;
  int refused = 0;
  int not_yet = 0;
};

void run_cell(const TableModel& model, const tw::MeshShape& shape, const Settings& settings, Count& count) {
  SCOPED_TRACE(tw::concat(model.name, " on ", shape.describe(), ", ", settings.describe()));
  const Promise promise = promise_of(model, shape);
  if (promise.kind == Promise::Kind::not_yet) {
    ++count.not_yet;
    return;
  }
  const tw::Mesh mesh(world(), shape.axes());
  if (promise.kind == Promise::Kind::refused) {
    const std::string error = message_of([&] { (void)model.parallel(mesh, settings.options()); });
    EXPECT_TRUE(error != "nothing thrown" && error.find(promise.text) != std::string::npos) << error;
    ++count.refused;
  } else {
    EXPECT_NO_THROW(expect_equal(model, settings, mesh));
    ++count.equal;
  }
}

/// TW_ALL_CELLS: more settings, as make accept runs it.
TEST_P(MeshTable, EqualsOneProcess) {
  const TableModel model = table_models().at(GetParam());
  const uint64_t settings = std::getenv("TW_ALL_CELLS") != nullptr ? 4 : 1;
  Count count;
  uint64_t number = 0;
  for (const tw::MeshShape& shape : shapes_of(world().size())) {
    for (uint64_t i = 0; i < settings; ++i) run_cell(model, shape, Settings::drawn(tw::derived_seed(GetParam(), ++number)), count);
  }
  if (world().rank() == 0) {
    std::printf("%s: %d cells equal, %d refused, %d not yet\n", model.name.c_str(), count.equal, count.refused, count.not_yet);
  }
}
INSTANTIATE_TEST_SUITE_P(Of, MeshTable, ::testing::Range<size_t>(0, table_models().size()), [](const auto& of) {
  std::string name = table_models().at(of.param).name;
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace mesh_table_test

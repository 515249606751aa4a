// SPDX-License-Identifier: Apache-2.0
// A cell of the table: a model on a mesh with some settings, compared with one process.
#pragma once
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <tw/comm/full_tensors.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/data_parallel/join.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/tensor/content_hash.hpp>
#include <utility>
#include <vector>

#include "cells.hpp"

namespace tw::testing::mesh {

/// The batches of a step, by place.
inline std::vector<Batch> batches_of(const TableModel& model, const Settings& settings, int places, int64_t step) {
  torch::manual_seed(derived_seed(settings.seed, static_cast<uint64_t>(100 + step)));
  std::vector<Batch> batches;
  for (int place = 0; place < places; ++place) batches.push_back(model.batch(settings.rows(place, step)));
  return batches;
}

inline double sum_of_squares(const Tensors& tensors) {
  double sum = 0;
  for (const at::Tensor& each : tensors) sum += each.square().sum().item<double>();
  return sum;
}

struct Outcome {
  std::vector<double> losses;
  double evaluated = 0;  ///< sum of the squares of all outputs, in evaluation mode
  std::map<std::string, at::Tensor> state;
};

inline Outcome outcome_of_one_process(const TableModel& model, const Settings& settings, const MeshShape& shape, bool is_other) {
  const int places = along(shape, "data") * along(shape, "shard");
  const bool is_captured = model.kind == Kind::module && along(shape, "tensor") > 1;  // as if it had stages
  Reference reference(model.one_process(settings, std::max(along(shape, "stage"), is_captured ? 2 : 1)), model.loss(), settings, is_other);
  Outcome outcome;
  for (int64_t update = 0; update < Settings::updates; ++update) {
    for (int64_t step = update * settings.steps; step < (update + 1) * settings.steps; ++step) {
      outcome.losses.push_back(reference.add(batches_of(model, settings, places, step), step));
    }
    reference.finish();
  }
  outcome.state = reference.state();
  for (const Batch& batch : batches_of(model, settings, places, 1)) {
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
inline std::string differing(const Communicator& comm, const std::vector<NamedShard>& shards) {
  std::vector<HeldPart> mine;
  for (const NamedShard& each : shards) {
    if (each.tensor.numel() > 0) mine.push_back({each.name, each.offsets, each.tensor.sizes().vec(), content_hash(each.tensor)});
  }
  std::map<std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>, uint64_t> known;
  std::string names;
  for (const auto& of_rank : allgather_objects(comm, mine)) {
    for (const HeldPart& each : of_rank) {
      const auto [found, is_new] = known.insert({{each.name, each.offsets, each.sizes}, each.hash});
      if (found->second != each.hash) names += each.name + " ";
    }
  }
  return names;
}

inline Outcome outcome_of_mesh(const TableModel& model, const Settings& settings, const Mesh& mesh) {
  Parallel parallel = model.parallel(mesh, settings.options());
  ParallelModel& trained = parallel.model;
  const auto optimizer = settings.optimizer(trained.parameters());
  const auto batch_of = [&](int64_t step) {
    const Batch batch = batches_of(model, settings, trained.places(), step).at(static_cast<size_t>(trained.place()));
    return Batch{model.type.placed(batch.inputs), model.type.placed(batch.targets)};
  };
  Outcome outcome;
  int64_t step = 0;
  const auto train = [&](bool /*has_samples*/) {
    if (step % settings.steps == 0) optimizer->zero_grad();
    const Batch batch = batch_of(step);
    outcome.losses.push_back(trained.train_step(batch.inputs, batch.targets, model.loss()));
    if (++step % settings.steps != 0) return;
    if (settings.clip) trained.clip_grad_norm(Reference::max_norm);
    optimizer->step();
  };
  if (settings.joined) {
    join(mesh.comm(), [&] { return step < settings.steps_of(trained.place()); }, train);
  } else {
    while (step < Settings::updates * settings.steps) train(true);
  }
  trained.eval();
  const Batch batch = batch_of(1);
  const OutputSum squares = [](const Tensors& outputs, const Tensors& /*targets*/) { return sum_of_squares(outputs); };
  outcome.evaluated = trained.evaluate(batch.inputs, batch.targets, {squares}, model.rows_of_evaluation).at(0);
  std::vector<NamedShard> shards = trained.shards();
  std::erase_if(shards, [](const NamedShard& each) { return each.kind == ShardKind::counter; });
  for (const NamedShard& each : OptimizerState(*optimizer, trained.optimized()).shards()) {
    if (each.kind == ShardKind::optimizer && each.tensor.is_floating_point()) shards.push_back(each);
  }
  EXPECT_EQ(differing(mesh.comm(), shards), "");
  for_each_full_tensor(mesh.comm(), shards, [&](const std::string& name, const at::Tensor& whole) { outcome.state[name] = whole.clone(); });
  return outcome;
}

/// Allowed errors. A cell may differ by 32 times what the order of summation makes, but by `least` in any case and never by more than `most`.
struct Bounds {
  double least = 1e-13;
  double most = 1e-12;
};

inline Bounds bounds_of(const TableModel& model, const Settings& settings) {
  constexpr double float32_over_float64 = 0x1p29;  // ratio of the units in the last place
  Bounds bounds{.most = settings.adam || model.is_random ? 1e-9 : 1e-12};
  // AdamW's epsilon is larger in float32, so that it amplifies less.
  if (settings.float32) bounds = {.least = bounds.least * float32_over_float64, .most = 1e-12 * float32_over_float64};
  return bounds;
}

inline void expect_equal(const TableModel& model, const Settings& settings, const Mesh& mesh) {
  const Outcome ours = outcome_of_mesh(model, settings, mesh);
  const Outcome forward = outcome_of_one_process(model, settings, mesh.shape(), false);
  const Outcome backward = outcome_of_one_process(model, settings, mesh.shape(), true);
  const Bounds bounds = bounds_of(model, settings);
  const auto [order, ordered] = largest_error(backward.state, forward.state);
  EXPECT_LE(32 * order, bounds.most) << ordered << ": the order of summation matters too much";
  const auto [error, name] = largest_error(ours.state, forward.state);
  EXPECT_LE(error, std::max(bounds.least, std::min(32 * order, bounds.most))) << name << "; the order of summation makes " << order;
  EXPECT_NEAR(ours.evaluated, forward.evaluated, 10 * bounds.most * forward.evaluated);
  ASSERT_EQ(ours.losses.size(), forward.losses.size());
  for (size_t i = 0; i < ours.losses.size(); ++i) {
    EXPECT_NEAR(ours.losses[i], forward.losses[i], bounds.most * (1 + std::abs(forward.losses[i]))) << "loss " << i;
  }
}

struct Count {
  int equal = 0;
  int refused = 0;
  int not_yet = 0;

  /// On rank 0.
  void print(const std::string& what) const {
    if (world().rank() == 0) std::printf("%s: %d cells equal, %d refused, %d not yet\n", what.c_str(), equal, refused, not_yet);
  }
};

/// Trains the model on the mesh and in one process, or expects its refusal. Collective over the world.
inline void run_cell(const TableModel& model, const MeshShape& shape, Settings settings, Count& count) {
  settings.float32 = model.type.dtype == torch::kFloat;
  settings.micro_batches = std::min(settings.micro_batches, Settings::least_rows / model.least_rows);
  if (model.type.on_device || find_topology(world()).nodes > 1) settings.one_copy = false;
  if (model.has_sparse) {
    settings.adam = false;
    settings.momentum = 0;
  }
  settings = fitting(settings, model, shape);
  SCOPED_TRACE(concat(model.name, " on ", shape.describe(), ", ", settings.describe()));
  const Promise promise = promise_of(model, shape);
  if (promise.kind == Promise::Kind::not_yet) {
    ++count.not_yet;
    return;
  }
  const Mesh mesh(world(), shape.axes());
  if (promise.kind == Promise::Kind::refused) {
    const std::string error = message_of([&] { (void)model.parallel(mesh, settings.options()); });
    EXPECT_TRUE(error != "nothing thrown" && error.find(promise.text) != std::string::npos) << error;
    ++count.refused;
  } else {
    if (!promise.text.empty() && message_of([&] { (void)model.parallel(mesh, settings.options()); }).find(promise.text) != std::string::npos) {
      ++count.refused;
      return;
    }
    EXPECT_NO_THROW(expect_equal(model, settings, mesh));
    ++count.equal;
  }
}

}  // namespace tw::testing::mesh

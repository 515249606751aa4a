// SPDX-License-Identifier: Apache-2.0
// Modules of the generator as models of the table.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/cuts.hpp>

#include "../../../modules/pipeline/tests/random_module.hpp"
#include "models.hpp"

namespace tw::testing::mesh {

inline Batch batch_of_random_module(int64_t rows) {
  using pipeline::RandomModule;
  return {{torch::randn({rows, RandomModule::length, RandomModule::width}, torch::kDouble),
           torch::randint(RandomModule::vocabulary, {rows, RandomModule::length})},
          {torch::randn({rows, RandomModule::outputs}, torch::kDouble)}};
}

/// The module of `seed`, in float64. Some cannot be captured.
inline TableModel random_model(uint64_t seed) {
  const auto make = [seed] { return std::make_shared<pipeline::RandomModule>(seed); };
  const auto example = [seed] {
    torch::manual_seed(seed);
    return batch_of_random_module(Settings::most_rows).inputs;
  };
  const auto module = make();
  TableModel model{.name = concat("random module ", seed, ": ", module->describe()),
                   .batch = batch_of_random_module,
                   .loss = mean_square,
                   .draws = module->draws(),
                   .is_random = true,
                   .rows_of_evaluation = Settings::most_rows};  // some outputs depend on the whole batch
  model.parallel = [make, example](const Mesh& mesh, const ParallelOptions& options) {
    const auto made = make();
    return Parallel{made, parallelize(mesh, *made, example(), options)};
  };
  model.one_process = [make, example](const Settings& settings, int stages) {
    const auto made = make();
    const graph::Forward forward = graph::forward_of(*made);
    return stages > 1 ? captured(made, forward, example(), settings) : as_one_process(made, forward, settings);
  };
  if (module->refusal().empty()) {
    const graph::ModeGraphs graphs = graph::capture_modes(*module, graph::forward_of(*module), example());
    model.most_stages = static_cast<int>(graph::units_of(graphs.training).size());
    model.least_rows = std::max(graphs.training.min_rows, graphs.evaluation.min_rows);
  } else {
    model.kind = Kind::odd;
    model.refusal = module->refusal();
  }
  return model;
}

}  // namespace tw::testing::mesh

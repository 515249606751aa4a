// SPDX-License-Identifier: Apache-2.0
// What differs between the runs of a cell of the table.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/random.hpp>
#include <tw/parallel_model.hpp>
#include <vector>

namespace tw::testing::mesh {

using Tensors = std::vector<at::Tensor>;

struct Batch {
  Tensors inputs;
  Tensors targets;
};

struct Settings {
  uint64_t seed = 0;
  bool adam = false;      ///< AdamW, else SGD
  double momentum = 0.9;  ///< of SGD
  bool clip = false;
  int64_t steps = 1;  ///< train_step() calls whose gradients add up to an update
  int64_t micro_batches = 1;
  pipeline::ScheduleKind schedule = pipeline::ScheduleKind::one_forward_one_backward;
  bool recompute = false;
  bool uneven = false;        ///< places have different numbers of rows
  bool empty = false;         ///< one place has none
  bool joined = false;        ///< some places have fewer steps than others, see tw::join()
  bool one_copy = false;      ///< of the parameters along `shard`
  bool least_memory = false;  ///< the goal of dividing operators along `tensor`; otherwise, the fastest step
  bool float32 = false;
  ComputeType compute = ComputeType::float32;  ///< of models in float32

  static constexpr int64_t updates = 3;     ///< of a cell
  static constexpr int64_t most_rows = 6;   ///< of a place
  static constexpr int64_t least_rows = 4;  ///< of a place that has any

  /// Settings drawn from `seed`. @param floats whether a quarter of them are in float32
  static Settings drawn(uint64_t seed, bool floats = false) {
    CounterRng random(seed, 57);
    Settings settings{.seed = seed};
    settings.adam = random.below(2) == 1;
    settings.clip = random.below(2) == 1;
    settings.steps = 1 + random.below(2);
    settings.micro_batches = 1 + random.below(3);
    settings.schedule = static_cast<pipeline::ScheduleKind>(random.below(5));
    settings.recompute = random.below(3) == 0;
    settings.uneven = random.below(2) == 1;
    settings.empty = settings.uneven && random.below(2) == 1;
    settings.float32 = random.below(4) == 0 && floats;
    settings.joined = random.below(3) == 0;
    settings.one_copy = random.below(3) == 0;
    settings.least_memory = random.below(4) != 0;  // small models are fastest whole
    return settings;
  }

  std::string describe() const {
    return concat(adam ? "AdamW" : "SGD", ", ", micro_batches, " micro-batches, ", name_of(schedule), recompute ? ", recompute" : "",
                  clip ? ", clipped" : "", steps > 1 ? ", two steps an update" : "", uneven ? ", uneven" : "",
                  empty ? ", one place without rows" : "", joined ? ", joined" : "", one_copy ? ", one copy" : "",
                  least_memory ? ", least memory" : "", float32 ? ", float32" : "");
  }

  ParallelOptions options() const {
    return {.micro_batches = micro_batches,
            .seed = seed,
            .compute = compute,
            .schedule = schedule,
            .recompute = recompute ? pipeline::Recompute::full : pipeline::Recompute::none,
            .split_goal = least_memory ? splits::SplitGoal::least_memory : splits::SplitGoal::fastest,
            .unit_bytes = 500,
            .one_copy_per_node = one_copy};
  }

  std::unique_ptr<torch::optim::Optimizer> optimizer(const Tensors& parameters) const {
    // More than LibTorch's epsilon: the rounding in gradients that are zero in exact arithmetic is divided by it.
    const double epsilon = float32 ? 1e-3 : 1e-7;
    if (adam) return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-2).weight_decay(0.1).eps(epsilon));
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05).momentum(momentum));
  }

  /// Steps for which a place has samples, if places are joined.
  int64_t steps_of(int place) const { return updates * steps - place % 3; }

  /// The rows of a place in step `update`.
  int64_t rows(int place, int64_t update) const {
    if (joined && update >= steps_of(place)) return 0;
    if (!uneven) return most_rows;
    if (empty && place == 1 && update != 1) return 0;
    return most_rows - (place + update) % 3;
  }
};

}  // namespace tw::testing::mesh

// SPDX-License-Identifier: Apache-2.0
// A module trained by replicas, with or without sharding, each with its rows of the batch, and by one process.
#pragma once
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <vector>

#include "cut_trial.hpp"

namespace tw::pipeline {

class ReplicaTrial {
 public:
  /// @param make returns the same trainee each time; it must not use random numbers or depend on other rows
  ReplicaTrial(const Communicator& comm, std::function<Trainee()> make, bool sharded) : comm_(comm), make_(std::move(make)), sharded_(sharded) {}

  /// Collective. @return differences from one process, as this rank sees them; empty: none
  std::string run() const {
    const Trainee theirs = make_();
    torch::optim::SGD optimizer(once(theirs.module->parameters()), options());
    double expected = 0;  // the last loss depends on all updates before it
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      expected = backward(theirs, theirs.inputs, theirs.targets);
      optimizer.step();
    }
    const Trainee mine = make_();
    const double found = sharded_ ? sharded(mine) : replicated(mine);
    std::string text;
    if (!(std::abs(found - expected) <= tolerance)) text = concat("loss by ", found - expected);
    return text;
  }

 private:
  using Tensor = torch::Tensor;
  using Tensors = std::vector<Tensor>;
  static constexpr int steps = 4;
  static constexpr double tolerance = 1e-10;  // as in CutTrial

  static torch::optim::SGDOptions options() { return torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.1); }

  static Tensors once(const Tensors& tensors) {
    Tensors found;
    for (const Tensor& each : tensors) {
      if (std::ranges::none_of(found, [&](const Tensor& known) { return known.is_same(each); })) found.push_back(each);
    }
    return found;
  }

  static double backward(const Trainee& trainee, const Tensors& inputs, const Tensors& targets) {
    const Tensor loss = torch::mse_loss(trainee.forward(inputs)[0], targets[0]);
    loss.backward();
    return loss.item<double>();
  }

  /// Makes this rank's part of the steps. @return the last loss of all rows
  double steps_of(const Trainee& trainee, DataParallel& parallel, torch::optim::Optimizer& optimizer) const {
    const int64_t rows = trainee.inputs[0].size(0);
    const Rows mine = part_of({0, rows}, comm_.size(), comm_.rank());
    const auto part = [&](const Tensors& of) {
      Tensors parts;
      for (const Tensor& each : of) parts.push_back(each.narrow(0, mine.begin, mine.count()));
      return parts;
    };
    parallel.set_samples(mine.count());
    double loss = 0;
    for (int i = 0; i < steps; ++i) {
      optimizer.zero_grad();
      loss = backward(trainee, part(trainee.inputs), part(trainee.targets));
      optimizer.step();
    }
    const Tensor total = torch::tensor(loss * static_cast<double>(mine.count()) / static_cast<double>(rows), torch::kDouble);
    allreduce(comm_, total, ReduceOp::sum);
    return total.item<double>();
  }

  double replicated(const Trainee& mine) const {
    DataParallel parallel(comm_, *mine.module, {.reduction = Reduction::sample_weighted});
    torch::optim::SGD optimizer(once(mine.module->parameters()), options());
    return steps_of(mine, parallel, optimizer);
  }

  double sharded(const Trainee& mine) const {
    FullySharded sharded(comm_, *mine.module, {.reduction = Reduction::sample_weighted, .unit_bytes = 2000});
    torch::optim::SGD optimizer(sharded.slices(), options());
    return steps_of(mine, sharded.parallel(), optimizer);
  }

  const Communicator& comm_;
  std::function<Trainee()> make_;
  bool sharded_;
};

}  // namespace tw::pipeline

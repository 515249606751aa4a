// SPDX-License-Identifier: Apache-2.0
// A run of 18 updates that may be ended early, for tests that compare runs.
#pragma once
#include "support.hpp"

namespace tw::testing {

/// Three epochs of squares(31): 5 updates of 6 samples and one of 1.
inline train::Options three_epochs(const std::string& name) {
  train::Options options = quick(name);
  options.epochs = 3;
  options.global_batch = 6;
  options.accumulation = 2;
  options.seed = 4;
  return options;
}

/// Ends the run after `step` updates, and records every sample's first number, which identifies samples of squares().
struct Witness : train::Hook {
  explicit Witness(int64_t at) : step(at) {}
  void on_sample(train::State& state) override {
    if (state.batch.inputs.numel() == 0) return;  // an inner stage's
    for (int64_t i = 0; i < state.batch.size(); ++i) seen.push_back(state.batch.inputs[i][0].item<double>());
  }
  void on_update(train::State& state) override {
    if (state.step == step) state.stop("the test says so");
  }
  int64_t step;
  std::vector<double> seen;
};

constexpr int64_t never = -1;

struct Outcome {
  std::vector<at::Tensor> parameters;
  std::vector<double> seen;
  train::Summary summary;
};

/// One part of a run over a mesh of the ranks of `comm`. A resumed part must not keep the parameters that the model begins with.
template <class Optimizer, class OptimizerOptions>
Outcome run(const Communicator& comm, const train::Options& options, const OptimizerOptions& rule, int64_t stop_at = never, double dropout = 0.2,
            const std::vector<MeshAxis>& axes = {{"data"}}) {
  const auto model = make_regressor(dropout);
  Optimizer optimizer(model.tensors(), rule);
  const auto data = squares(31);
  train::Trainer trainer(Mesh(comm, axes), model, optimizer, train::regression(), data, data, options, &data);
  Witness witness(stop_at);
  trainer.add(witness);
  const auto summary = trainer.run();
  return {copies(model), witness.seen, summary};
}

inline train::Options options_for(const std::string& name, const train::ReplicaOptions& replicas) {
  train::Options options = three_epochs(name);
  options.replicas = replicas;
  return options;
}
inline train::Options options_for(const std::string& name, const Way& way) {
  train::Options options = options_for(name, way.replicas);
  options.shard = way.shard;
  return options;
}

inline Outcome run_adam(const train::Options& options, int64_t stop_at = never, const std::vector<MeshAxis>& axes = {{"data"}}) {
  return run<torch::optim::Adam>(world(), options, torch::optim::AdamOptions(0.01), stop_at, 0.2, axes);
}

/// Relative to the reference, in the 2-norm of each parameter.
inline void expect_close(const Outcome& ours, const Outcome& reference, double tolerance, const std::string& what) {
  for (size_t i = 0; i < ours.parameters.size(); ++i) {
    const double difference = (ours.parameters[i] - reference.parameters[i]).norm().item<double>();
    EXPECT_LE(difference, tolerance * reference.parameters[i].norm().item<double>()) << what << " parameter " << i;
  }
}

}  // namespace tw::testing

// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/capture_modes.hpp>

#include <memory>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

#include "other_numbers.hpp"
#include "row_places.hpp"
#include "verify_replay.hpp"

namespace tw::graph {
namespace {

/// Training modes of a module and its parts, restored at the end.
class Modes {
 public:
  explicit Modes(torch::nn::Module& module) : module_(module), parts_(module.modules(/*include_self=*/false)), training_(module.is_training()) {
    for (const auto& each : parts_) training_of_parts_.push_back(each->is_training());
  }
  ~Modes() { restore(); }
  Modes(const Modes&) = delete;
  Modes& operator=(const Modes&) = delete;

  void evaluate() const { module_.train(false); }
  /// Restores first, since some parts may be frozen.
  void train() const {
    restore();
    if (!training_) module_.train(true);
  }

 private:
  /// A module before its parts, since train() sets the parts too.
  void restore() const {
    module_.train(training_);
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->train(training_of_parts_[i]);
  }

  torch::nn::Module& module_;
  std::vector<std::shared_ptr<torch::nn::Module>> parts_;
  bool training_;
  std::vector<bool> training_of_parts_;
};

std::vector<NamedTensor> named(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::vector<NamedTensor> all;
  for (const auto& each : tensors) all.push_back({each.key(), each.value()});
  return all;
}

}  // namespace

ModeGraphs capture_modes(torch::nn::Module& module, const Forward& forward, const std::vector<at::Tensor>& example) {
  Subject subject(forward, named(module.named_parameters()), named(module.named_buffers()));
  const Modes modes(module);
  modes.evaluate();
  Graph evaluation = capture(forward, subject.parameters, subject.buffers, example);
  modes.train();
  Graph training = capture(forward, subject.parameters, subject.buffers, example);
  if (!subject.has_values(example)) return {std::move(training), std::move(evaluation)};
  first_run_of(subject, example);  // finds parameters that change
  // Compare after a simulated training step and a mode change.
  const OtherNumbers others(subject.tensors());
  modes.evaluate();
  expect_follows_tensors(evaluation, subject, rotated(example));
  modes.train();
  expect_follows_tensors(training, subject, rotated(example));
  return {std::move(training), std::move(evaluation)};
}

}  // namespace tw::graph

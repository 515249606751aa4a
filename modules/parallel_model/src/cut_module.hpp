// SPDX-License-Identifier: Apache-2.0
// A user's module that has been captured, and cut into stages or divided along `tensor`. Its own code does not run any more, so the user's changes to
// it must be applied to the stages or rejected.
#pragma once
#include <memory>
#include <string>
#include <tw/gradients/module_modes.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <vector>

#include "module_check.hpp"

namespace tw {

class CutModule {
 public:
  /// @param module in the modes in which it was captured. @throws ContractError if it is in evaluation mode, but a part of it is not
  explicit CutModule(std::shared_ptr<torch::nn::Module> module);

  /// Drops the values of all tensors that `stage` does not have.
  void keep_only(const torch::nn::Module& stage) const;
  /// Names of those parameters that forward passes change in place, see ModelTensors::renormalised.
  std::vector<std::string> renormalised_among(const std::vector<NamedTensor>& parameters) const;
  void set_training(bool training) { switch_.set(*module_, training); }
  /// An error text that names a part whose mode is different from that at capture, or a parameter as ModuleCheck::problem() does. Empty: there is
  /// none.
  std::string problem() const;
  /// 1: training, 2: evaluation.
  int64_t mode() const;
  /// Puts the stages into the mode of the module.
  void apply_mode_to(pipeline::Pipeline& stages) const;

 private:
  struct Part {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    bool trains;  // whether it is in training mode when the whole module is
  };
  std::shared_ptr<torch::nn::Module> module_;
  ModuleCheck check_;
  std::vector<Part> parts_;
  TrainingSwitch switch_;
};

/// The stages, which follow the modes of `module`.
std::shared_ptr<TrainableModel> stages_of_module(std::shared_ptr<pipeline::Pipeline> stages, std::shared_ptr<CutModule> module);

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tw {

using Modules = std::vector<std::shared_ptr<torch::nn::Module>>;

/// A module, which must outlive the result, and its parts; parents come before their children.
Modules with_parts(torch::nn::Module& module);

/// Which of some modules are in training and which in evaluation mode.
class ModuleModes {
 public:
  /// As they are now. @param modules parents before their children
  explicit ModuleModes(const Modules& modules);
  /// @return whether any module had another mode
  bool put_back() const;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

/// TrainableModel::set_training() of a module: what the user has frozen by eval() stays frozen.
class TrainingSwitch {
 public:
  /// @param training false: all parts are in evaluation mode. True: each part gets the mode back that it had before; without that, a module in
  /// evaluation mode trains as a whole. @param more modules that `module` reaches in train(), and does not register
  void set(torch::nn::Module& module, bool training, const Modules& more = {});

 private:
  std::optional<ModuleModes> found_;  // before set(false)
};

}  // namespace tw

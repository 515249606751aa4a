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

/// `module` and all its submodules; parents come before their children. `module` must outlive the result.
Modules with_parts(torch::nn::Module& module);

/// The modes (training or evaluation) of some modules.
class ModuleModes {
 public:
  /// Records the current modes. @param modules parents before their children
  explicit ModuleModes(const Modules& modules);
  /// Restores the recorded modes. @return whether any module's mode changed
  bool restore() const;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

/// Implements TrainableModel::set_training() for a module. Submodules that you put into evaluation mode yourself stay in it.
class TrainingSwitch {
 public:
  /// @param training false: puts all submodules into evaluation mode. true: restores the modes from before set(false). If there was no set(false),
  /// and `module` is in evaluation mode, true puts `module` and its submodules into training mode. @param more modules that `module` reaches in
  /// train() without registering them
  void set(torch::nn::Module& module, bool training, const Modules& more = {});

 private:
  std::optional<ModuleModes> found_;  // modes before set(false)
};

}  // namespace tw

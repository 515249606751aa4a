// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/module_modes.hpp>

#include <torch/nn/module.h>

namespace tw {

Modules with_parts(torch::nn::Module& module) {
  Modules all = module.modules(/*include_self=*/false);
  all.insert(all.begin(), std::shared_ptr<torch::nn::Module>(std::shared_ptr<void>(), &module));
  return all;
}

ModuleModes::ModuleModes(const Modules& modules) {
  for (const auto& each : modules) modes_.emplace_back(each, each->is_training());
}

// Parents first: their train() reaches their children.
bool ModuleModes::restore() const {
  bool any = false;
  for (const auto& [each, mode] : modes_) {
    if (each->is_training() == mode) continue;
    each->train(mode);
    any = true;
  }
  return any;
}

void TrainingSwitch::set(torch::nn::Module& module, bool training, const Modules& more) {
  if (!training) {
    if (!found_) {
      Modules all = with_parts(module);
      all.insert(all.end(), more.begin(), more.end());
      found_.emplace(all);
    }
    module.eval();
  } else if (found_) {
    found_->restore();
    found_.reset();
  } else if (!module.is_training()) {
    module.train();  // left in evaluation mode by the user
  }
}

}  // namespace tw

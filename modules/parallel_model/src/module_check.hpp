// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <vector>

namespace tw {

/// Checks that a module still has the parameters that it had when it was divided: new ones would be trained on each rank separately, or not at all.
class ModuleCheck {
 public:
  explicit ModuleCheck(std::shared_ptr<torch::nn::Module> module);

  /// An error text that names a parameter that is new, or that was frozen and now requires a gradient; empty: there is none.
  std::string problem() const;

 private:
  struct Known {
    at::Tensor tensor;
    bool is_trained;
  };
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Known> parameters_;
};

/// For for_each_layer(). @throws ContractError naming a layer that communicates in its passes, such as SyncBatchNorm
void expect_no_exchange(const std::string& name, const torch::nn::Module& layer);

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tw::graph {

/// A TorchScript module as a torch::nn::Module, with the same tensors under the same names. It always runs as written: TorchScript's optimiser, which
/// fuses operators after a module's first runs, affects the original module only.
class TorchScript : public torch::nn::Module {
 public:
  explicit TorchScript(const torch::jit::Module& module);
  ~TorchScript() override;
  TorchScript(const TorchScript&) = delete;
  TorchScript& operator=(const TorchScript&) = delete;

  /// @return the tensors of its result in order, including those in tuples, lists and dictionaries
  /// @throws Error if it returns anything else
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  void train(bool on = true) override;

 private:
  std::unique_ptr<torch::jit::Module> script_;
};

}  // namespace tw::graph

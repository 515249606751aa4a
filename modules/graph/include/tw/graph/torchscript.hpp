// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tw::graph {

/// A TorchScript module as one of torch::nn, with the same tensors under the same names. It runs as it is written, whatever ran before:
/// TorchScript's optimiser, which puts operators together once a module has run, works on the module that was given, and not on this one.
class TorchScript : public torch::nn::Module {
 public:
  explicit TorchScript(const torch::jit::Module& module);
  ~TorchScript() override;
  TorchScript(const TorchScript&) = delete;
  TorchScript& operator=(const TorchScript&) = delete;

  /// @return the tensors of its result, also of tuples, lists and dictionaries in it, in their order
  /// @throws Error where it returns anything else
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  void train(bool on = true) override;

 private:
  std::unique_ptr<torch::jit::Module> script_;
};

}  // namespace tw::graph

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tw::graph {

/// A TorchScript module as a torch::nn::Module, with the same submodules, tensors and modes under the same names. It always runs as written:
/// TorchScript's optimiser, which fuses operators after a module's first runs, affects the original module only.
class TorchScript : public torch::nn::Module {
 public:
  explicit TorchScript(const torch::jit::Module& module);
  ~TorchScript() override;
  TorchScript(const TorchScript&) = delete;
  TorchScript& operator=(const TorchScript&) = delete;

  /// @return the tensors of its result in order, including those in tuples, lists and dictionaries
  /// @throws Error if it returns anything else
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  /// The same for a module that takes one tensor and returns one. @throws Error if it returns another number of them
  at::Tensor forward_one(const at::Tensor& input);
  void train(bool on = true) override;

 private:
  std::unique_ptr<torch::jit::Module> script_;
};

/// Loads a file as Python's torch.jit.script(net).save(path) writes it. @throws FileError if it cannot be read, or has no forward
std::shared_ptr<TorchScript> load_torchscript(const std::filesystem::path& path);

}  // namespace tw::graph

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

/// A TorchScript module as a torch::nn::Module, with the same submodules, tensors and training modes under the same names. It always runs as written:
/// TorchScript's graph optimizer, which fuses operators after a module's first runs, affects the original module only.
class TorchScript : public torch::nn::Module {
 public:
  explicit TorchScript(const torch::jit::Module& module);
  ~TorchScript() override;
  TorchScript(const TorchScript&) = delete;
  TorchScript& operator=(const TorchScript&) = delete;

  /// @return the tensors in the script's result in order, including those in tuples, lists and dictionaries
  /// @throws Error if the result contains anything else (except None)
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  /// For a script that takes one tensor and returns one. @throws Error if it returns none or several
  at::Tensor forward_one(const at::Tensor& input);
  void train(bool on = true) override;

 private:
  std::unique_ptr<torch::jit::Module> script_;
};

/// Loads a file that Python's torch.jit.script(net).save(path) wrote. @throws FileError if the file cannot be read, or its module has no forward()
std::shared_ptr<TorchScript> load_torchscript(const std::filesystem::path& path);

}  // namespace tw::graph

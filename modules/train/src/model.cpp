// SPDX-License-Identifier: Apache-2.0
#include <tw/train/model.hpp>

#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/module.h>
#include <torch/script.h>

#include <optional>
#include <tw/autograd/autocast.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/state/module_state.hpp>
#include <unordered_map>
#include <utility>

namespace tw::train {
namespace {

/// While alive, TorchScript runs operator by operator, so that autocast treats its operators as usual. Otherwise LibTorch inserts its own casts, by
/// different rules, when a script first runs, and backward passes ignore them.
class AsWritten {
 public:
  AsWritten() = default;
  ~AsWritten() { torch::jit::setAutocastMode(casts_); }
  AsWritten(const AsWritten&) = delete;
  AsWritten& operator=(const AsWritten&) = delete;

 private:
  torch::jit::GraphOptimizerEnabledGuard optimizer_{false};
  bool casts_ = torch::jit::setAutocastMode(false);
};

/// A TorchScript module; each rank has the whole of it.
class Script : public TrainableModel {
 public:
  explicit Script(torch::jit::Module module) : module_(std::move(module)) {}

  ModelTensors tensors() const override {
    ModelTensors tensors;
    const auto add = [&](std::vector<NamedTensor>& list, const auto& entries) {
      std::unordered_map<const c10::TensorImpl*, std::string> first;
      for (const auto& [name, tensor] : entries) {
        const auto [found, is_new] = first.emplace(tensor.unsafeGetTensorImpl(), name);
        if (is_new) {
          list.push_back({name, tensor});
        } else {
          tensors.aliases.emplace(name, found->second);
        }
      }
    };
    add(tensors.parameters, module_.named_parameters());
    add(tensors.buffers, module_.named_buffers());
    return tensors;
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    std::optional<AsWritten> as_written;
    if (AutocastState::here().is_on()) as_written.emplace();
    const c10::IValue output = module_.forward({inputs});
    if (!output.isTensor()) throw Error("the TorchScript model's forward must return one tensor, got " + output.tagKind());
    return output.toTensor();
  }

  void set_training(bool training) override {
    if (!training) {
      if (found_.empty()) {
        for (const torch::jit::Module& each : module_.modules()) found_.emplace_back(each, each.is_training());
      }
      module_.eval();
    } else if (found_.empty()) {
      if (!module_.is_training()) module_.train();
    } else {
      for (auto [each, mode] : std::exchange(found_, {})) {  // parents first: their train() reaches their children
        if (each.is_training() != mode) each.train(mode);
      }
    }
  }

 private:
  torch::jit::Module module_;
  std::vector<std::pair<torch::jit::Module, bool>> found_;  // modes before set_training(false)
};

}  // namespace

Model model_of(const std::shared_ptr<TrainableModel>& model) { return {model->tensors(), model}; }

Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward) {
  Model model = model_of(whole_model(module, std::move(forward)));
  model.empty_submodules = empty_submodules(*module);
  for (const auto& each : module->named_modules()) {
    const auto* norm = dynamic_cast<const SyncBatchNormImpl*>(each.value().get());
    if (norm == nullptr) continue;
    model.exchanges_in_passes = true;
    TW_EXPECTS(norm->reduction() != Reduction::sample_weighted, "SyncBatchNorm ", each.key(),
               " is made for Reduction::sample_weighted; the trainer weights losses itself and sums gradients: make it for Reduction::sum");
  }
  return model;
}

Model load_torchscript(const std::filesystem::path& path) {
  const std::string wanted = "; expected a TorchScript module, as torch.jit.script(model).save() writes it in Python";
  if (!std::filesystem::exists(path)) throw FileError(path, 0, "does not exist" + wanted);
  if (std::filesystem::is_directory(path)) throw FileError(path, 0, "is a folder" + wanted);
  torch::jit::Module module;
  try {
    module = torch::jit::load(path.string());
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    const bool is_pickle = why.find("constants.pkl") != std::string::npos;  // a LibTorch archive without code
    if (is_pickle) throw FileError(path, 0, "holds tensors or a pickled module, of Python's torch.save()" + wanted);
    throw FileError(path, 0, concat("is not a TorchScript file", wanted, " (", why.substr(0, 200), ')'));
  }
  const bool is_script = module.find_method("forward").has_value();
  if (!is_script) throw FileError(path, 0, "has no method forward: it holds only tensors, as torch::save() of C++ writes them" + wanted);
  return model_of(std::shared_ptr<TrainableModel>(std::make_shared<Script>(std::move(module))));
}

}  // namespace tw::train

// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/torchscript.hpp>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <tw/autograd/autocast.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::graph {
namespace {

void flatten(const c10::IValue& value, std::vector<at::Tensor>& into) {
  if (value.isTensor()) {
    into.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements()) flatten(each, into);
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) flatten(each, into);
  } else if (value.isGenericDict()) {
    for (const auto& each : value.toGenericDict()) flatten(each.value(), into);
  } else if (!value.isNone()) {
    throw Error(concat("a TorchScript module returns a ", value.tagKind(), "; expected tensors, or tuples, lists and dictionaries of tensors"));
  }
}

/// While alive, TorchScript runs operator by operator, so that captures see operators, and autocast treats them as usual: LibTorch would insert its
/// own casts, by different rules, when a script first runs, and backward passes ignore them.
class AsWritten {
 public:
  AsWritten() = default;
  ~AsWritten() {
    if (changes_) torch::jit::setAutocastMode(casts_);
  }
  AsWritten(const AsWritten&) = delete;
  AsWritten& operator=(const AsWritten&) = delete;

 private:
  torch::jit::GraphOptimizerEnabledGuard optimizer_{false};
  bool changes_ = AutocastState::here().is_on();  // of the whole process
  bool casts_ = changes_ && torch::jit::setAutocastMode(false);
};

/// A part of a module, for its tensors and its mode. A script that was frozen by eval() stays frozen, part by part.
class Part : public torch::nn::Module {
 public:
  explicit Part(torch::jit::Module script) : script_(std::move(script)) { Module::train(script_.is_training()); }
  void train(bool on) override {
    Module::train(on);
    script_.train(on);
  }

 private:
  torch::jit::Module script_;
};

void copy_parts(const torch::jit::Module& script, torch::nn::Module& into) {
  for (const auto& each : script.named_parameters(/*recurse=*/false)) {
    into.register_parameter(each.name, each.value, each.value.requires_grad());
  }
  for (const auto& each : script.named_buffers(/*recurse=*/false)) into.register_buffer(each.name, each.value);
  for (const auto& each : script.named_children()) {
    const auto part = std::make_shared<Part>(each.value);
    copy_parts(each.value, *part);
    into.register_module(each.name, part);
  }
}

}  // namespace

// A clone shares the tensors, but has its own functions, which have not run yet.
TorchScript::TorchScript(const torch::jit::Module& module) : script_(std::make_unique<torch::jit::Module>(module.clone(/*inplace=*/true))) {
  Module::train(script_->is_training());
  copy_parts(*script_, *this);
}

TorchScript::~TorchScript() = default;

std::vector<at::Tensor> TorchScript::forward(const std::vector<at::Tensor>& inputs) {
  const AsWritten as_written;
  std::vector<at::Tensor> outputs;
  flatten(script_->forward({inputs.begin(), inputs.end()}), outputs);
  return outputs;
}

at::Tensor TorchScript::forward_one(const at::Tensor& input) {
  std::vector<at::Tensor> outputs = forward({input});
  if (outputs.size() != 1) throw Error(concat("the TorchScript module must return one tensor here, got ", outputs.size()));
  return outputs.front();
}

void TorchScript::train(bool on) {
  Module::train(on);
  script_->train(on);  // also parts that are no modules here
}

std::shared_ptr<TorchScript> load_torchscript(const std::filesystem::path& path) {
  const std::string wanted = "; expected a TorchScript module, as torch.jit.script(model).save() writes it in Python";
  if (!std::filesystem::exists(path)) throw FileError(path, 0, "does not exist" + wanted);
  if (std::filesystem::is_directory(path)) throw FileError(path, 0, "is a folder" + wanted);
  torch::jit::Module module;
  try {
    module = torch::jit::load(path.string());
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    const bool is_pickle = why.find("constants.pkl") != std::string::npos;  // a LibTorch archive without code
    if (is_pickle) throw FileError(path, 0, "holds tensors or a pickled module from Python's torch.save()" + wanted);
    throw FileError(path, 0, concat("is not a TorchScript file", wanted, " (", why.substr(0, 200), ')'));
  }
  const bool is_script = module.find_method("forward").has_value();
  if (!is_script) throw FileError(path, 0, "has no method forward: it holds only tensors, as torch::save() of C++ writes them" + wanted);
  return std::make_shared<TorchScript>(module);
}

}  // namespace tw::graph

// SPDX-License-Identifier: Apache-2.0
#include "cut_module.hpp"

#include <algorithm>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/dropped_values.hpp>

namespace tw {
namespace {

class StagesOfModule : public ModelDecorator {
 public:
  StagesOfModule(std::shared_ptr<pipeline::Pipeline> stages, std::shared_ptr<CutModule> module)
      : ModelDecorator(std::move(stages)), module_(std::move(module)) {}

  /// With the names of renormalised parameters, which a captured stage does not show, since it has no embeddings.
  ModelTensors tensors() const override {
    ModelTensors tensors = inner()->tensors();
    tensors.renormalised = module_->renormalised_among(tensors.parameters);
    return tensors;
  }
  void set_training(bool training) override { module_->set_training(training); }

 private:
  std::shared_ptr<CutModule> module_;
};

const char* name_of_mode(bool training) { return training ? "training" : "evaluation"; }

}  // namespace

CutModule::CutModule(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)), check_(module_) {
  for (const auto& each : module_->named_modules("", /*include_self=*/false)) {
    TW_EXPECTS(module_->is_training() || !each.value()->is_training(), "part '", each.key(), "' of a module in evaluation mode is in training mode: ",
               "where a module is captured, a part may have its own mode only if the whole module is in training mode");
    parts_.push_back({each.key(), each.value(), !module_->is_training() || each.value()->is_training()});
  }
}

void CutModule::keep_only(const torch::nn::Module& stage) const {
  std::set<const c10::TensorImpl*> kept;
  for (const auto& [name, tensor] : model_tensors(stage).all_tensors()) kept.insert(tensor.unsafeGetTensorImpl());
  for (const auto& [name, tensor] : model_tensors(*module_).all_tensors()) {
    if (kept.contains(tensor.unsafeGetTensorImpl()) || tensor.is_meta()) continue;
    drop_values(
        tensor,
        concat(name,
               " belongs to another stage of a ParallelModel, or is divided along `tensor`, so this rank does not have its values: use save() or ",
               "whole_on_root(), which combine all ranks"));
  }
}

std::vector<std::string> CutModule::renormalised_among(const std::vector<NamedTensor>& parameters) const {
  std::vector<std::string> names = model_tensors(*module_).renormalised;
  std::erase_if(names, [&](const std::string& name) { return std::ranges::find(parameters, name, &NamedTensor::name) == parameters.end(); });
  return names;
}

std::string CutModule::problem() const {
  const bool training = module_->is_training();
  for (const auto& [name, part, trains] : parts_) {
    if (part->is_training() == (training && trains)) continue;
    return concat("part '", name, "' of a module in ", name_of_mode(training), " mode is in ", name_of_mode(part->is_training()),
                  " mode, unlike when the module was captured: call eval() of a part before parallelize(), and afterwards only train() and ",
                  "eval() of the ParallelModel");
  }
  return check_.problem();
}

int64_t CutModule::mode() const { return module_->is_training() ? 1 : 2; }

void CutModule::apply_mode_to(pipeline::Pipeline& stages) const {
  if (stages.is_training() != module_->is_training()) stages.train(module_->is_training());
}

std::shared_ptr<TrainableModel> stages_of_module(std::shared_ptr<pipeline::Pipeline> stages, std::shared_ptr<CutModule> module) {
  return std::make_shared<StagesOfModule>(std::move(stages), std::move(module));
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include <tw/train/mixed_precision.hpp>

#include <tw/autograd/autocast.hpp>
#include <tw/base/contract.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw::train {
namespace {

at::ScalarType type_of(ComputeType compute) { return compute == ComputeType::float16 ? at::kHalf : at::kBFloat16; }

at::Tensor in_float32(const at::Tensor& tensor) {
  const bool is_half = tensor.defined() && (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16);
  return is_half ? tensor.to(at::kFloat) : tensor;
}

class UnderAutocast : public ModelOverModel {
 public:
  UnderAutocast(std::shared_ptr<TrainableModel> inner, c10::DeviceType kind, at::ScalarType type)
      : ModelOverModel(std::move(inner)), kind_(kind), type_(type) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    const AutocastScope autocast(AutocastState::here().on(kind_, type_));
    return inner()->forward(inputs);
  }
  at::Tensor evaluate(const at::Tensor& inputs) override {
    const AutocastScope autocast(AutocastState::here().on(kind_, type_));
    return inner()->evaluate(inputs);
  }

  void pass(const TrainingPass& pass) override {
    const AutocastState before = AutocastState::here();
    TrainingPass again{pass.inputs, pass.targets, pass.loss, pass.weight, pass.number, pass.epoch};
    if (pass.on_loss) {
      again.on_loss = [&](const at::Tensor& outputs, at::Tensor& loss) {  // user code, not the model's: run it outside autocast
        const AutocastScope outside(before);
        pass.on_loss(outputs, loss);
      };
    }
    const AutocastScope autocast(before.on(kind_, type_));
    inner()->pass(again);
  }

 private:
  c10::DeviceType kind_;
  at::ScalarType type_;
};

}  // namespace

Model under_autocast(Model model, ComputeType compute) {
  if (compute == ComputeType::float32) return model;
  for (const NamedTensor& each : model.parameters) {
    const bool fits = !each.tensor.requires_grad() || each.tensor.scalar_type() == at::kFloat;
    TW_EXPECTS(fits, "precision.compute is for models with float32 parameters, but ", each.name, " is ", dtype_name(each.tensor.scalar_type()));
  }
  const c10::DeviceType kind = model.device().type();
  (void)AutocastState::here().on(kind, type_of(compute));  // throws if unsupported
  model.trained = std::make_shared<UnderAutocast>(std::move(model.trained), kind, type_of(compute));
  return model;
}

Objective under_autocast(Objective objective, ComputeType compute) {
  if (compute == ComputeType::float32) return objective;
  objective.loss = [loss = std::move(objective.loss), type = type_of(compute)](const at::Tensor& outputs, const at::Tensor& targets) {
    const AutocastScope autocast(AutocastState::here().on(outputs.device().type(), type));
    return in_float32(loss(outputs, targets));
  };
  for (Metric& metric : objective.metrics) {
    metric.sum = [sum = std::move(metric.sum)](const at::Tensor& outputs, const at::Tensor& targets) { return sum(in_float32(outputs), targets); };
  }
  return objective;
}

}  // namespace tw::train

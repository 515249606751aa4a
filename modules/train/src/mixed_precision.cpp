// SPDX-License-Identifier: Apache-2.0
#include <tw/train/mixed_precision.hpp>

#include <tw/autograd/autocast.hpp>
#include <tw/autograd/compute_type.hpp>

namespace tw::train {
namespace {

class UnderAutocast : public ModelDecorator {
 public:
  UnderAutocast(std::shared_ptr<TrainableModel> inner, ComputeType type, c10::DeviceType kind)
      : ModelDecorator(std::move(inner)), type_(type), kind_(kind) {}

  at::Tensor forward(const at::Tensor& inputs) override {
    const ComputeScope compute(type_, kind_);
    return inner()->forward(inputs);
  }
  at::Tensor evaluate(const at::Tensor& inputs) override {
    const ComputeScope compute(type_, kind_);
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
    const ComputeScope compute(type_, kind_);
    inner()->pass(again);
  }

 private:
  ComputeType type_;
  c10::DeviceType kind_;
};

}  // namespace

Model under_autocast(Model model, ComputeType compute) {
  if (compute == ComputeType::float32) return model;
  const c10::DeviceType kind = model.device().type();
  expect_autocast(compute, model.parameters, kind);
  model.trained = std::make_shared<UnderAutocast>(std::move(model.trained), compute, kind);
  return model;
}

Objective under_autocast(Objective objective, ComputeType compute) {
  if (compute == ComputeType::float32) return objective;
  objective.loss = [loss = std::move(objective.loss), compute](const at::Tensor& outputs, const at::Tensor& targets) {
    const ComputeScope scope(compute, outputs.device().type());
    return in_float32(loss(outputs, targets));
  };
  for (Metric& metric : objective.metrics) {
    metric.sum = [sum = std::move(metric.sum)](const at::Tensor& outputs, const at::Tensor& targets) { return sum(in_float32(outputs), targets); };
  }
  return objective;
}

}  // namespace tw::train

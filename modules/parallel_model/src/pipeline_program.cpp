// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>

#include "program.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

class PipelineProgram : public Program {
 public:
  PipelineProgram(std::shared_ptr<pipeline::Pipeline> pipeline, std::shared_ptr<TrainableModel> model, std::string explanation)
      : pipeline_(std::move(pipeline)), model_(std::move(model)), explanation_(std::move(explanation)) {}

  TrainableModel& model() override { return *model_; }
  bool can_idle() const override { return false; }
  Tensors forward(const Tensors& inputs) override { return pipeline_->forward(inputs); }
  std::string explain() const override { return explanation_; }

  double accumulate(const ProgramPass& pass, GradientSums& sums) override {
    double loss = 0;
    if (pass.rows > 0) {
      const auto held = sums.hold();
      pipeline_->set_replica(pass.place);
      pipeline_->set_calls(pass.update);
      // The pipeline weighs a micro-batch by its share of the rows.
      loss = pipeline_->run(pass.inputs, pass.targets, [&](const Tensors& outputs, const Tensors& targets) {
        const int64_t rows = targets.front().size(0);
        const double factor = pass.factor(targets, rows);
        if (factor == 0) return outputs.front().sum() * 0;
        return pass.loss.mean(outputs, targets) * (factor * static_cast<double>(pass.rows) / static_cast<double>(rows));
      });
    }
    if (!sums.sums_every_pass()) sums.join();
    return loss;
  }

 private:
  std::shared_ptr<pipeline::Pipeline> pipeline_;
  std::shared_ptr<TrainableModel> model_;
  std::string explanation_;
};

}  // namespace

std::unique_ptr<Program> pipeline_program(std::shared_ptr<pipeline::Pipeline> pipeline, std::shared_ptr<TrainableModel> model,
                                          std::string explanation) {
  return std::make_unique<PipelineProgram>(std::move(pipeline), std::move(model), std::move(explanation));
}

}  // namespace tw

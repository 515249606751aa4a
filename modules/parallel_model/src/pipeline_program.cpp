// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>

#include <tw/data_parallel/idle_pass.hpp>

#include "program.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

class PipelineProgram : public Program {
 public:
  explicit PipelineProgram(PipelineProgramSetup setup) : setup_(std::move(setup)) {}

  TrainableModel& model() override { return *setup_.model; }
  std::string problem() const override { return setup_.problem ? setup_.problem() : ""; }
  int64_t modes() const override { return setup_.mode ? setup_.mode() : mode_of(*setup_.pipeline); }
  Tensors forward(const Tensors& inputs) override {
    if (setup_.before_pass) setup_.before_pass();
    return setup_.pipeline->forward(inputs);
  }
  const InitialValues* initial() const override { return setup_.initial.get(); }
  std::string explain() const override { return setup_.explanation; }

  Tensors evaluate(const Tensors& inputs) override {
    if (setup_.before_pass) setup_.before_pass();
    Tensors outputs = setup_.pipeline->evaluate(inputs);
    return setup_.reads ? std::move(outputs) : Tensors();
  }
  void restart(const Mesh& mesh) override {
    setup_.pipeline->restart_over(mesh["stage"]);
    if (setup_.restart) setup_.restart(mesh);
  }
  const Tensors& example() const override { return setup_.example; }

  double accumulate(const ProgramPass& pass, GradientSums& sums) override {
    if (setup_.before_pass) setup_.before_pass();
    double loss = 0;
    {
      const auto held = sums.hold();
      setup_.pipeline->set_replica(pass.place);
      setup_.pipeline->set_calls(pass.update);
      if (setup_.begin) setup_.begin(pass.update, pass.rows, pass.place);
      if (pass.rows > 0) {
        loss = run(pass);
      } else {
        idle();  // in every run, stages sum tied gradients and gather
      }
    }
    sums.join();
    if (setup_.begin) setup_.begin(pass.update + 1, 0, pass.place);
    return loss;
  }

 private:
  double run(const ProgramPass& pass) const {
    // The pipeline weighs a micro-batch by its share of the rows.
    return setup_.pipeline->run(pass.inputs, pass.targets, [&](const Tensors& outputs, const Tensors& targets) {
      const int64_t rows = targets.front().size(0);
      const double factor = pass.factor(targets, rows);
      if (factor == 0) return zero_loss(outputs);
      return pass.mean(outputs, targets) * (factor * static_cast<double>(pass.rows) / static_cast<double>(rows));
    });
  }

  void idle() const {
    const IdlePass idle(setup_.model->tensors().buffers);
    (void)setup_.pipeline->run(setup_.example, setup_.example, [](const Tensors& outputs, const Tensors& /*targets*/) { return zero_loss(outputs); });
  }

  PipelineProgramSetup setup_;
};

}  // namespace

std::unique_ptr<Program> pipeline_program(PipelineProgramSetup setup) { return std::make_unique<PipelineProgram>(std::move(setup)); }

}  // namespace tw

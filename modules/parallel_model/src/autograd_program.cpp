// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/data_parallel/idle_pass.hpp>
#include <tw/gradients/module_modes.hpp>
#include <tw/planning/stage_ranks.hpp>

#include "module_check.hpp"
#include "program.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;
using pipeline::Rows;

Tensors narrow_all(const Tensors& tensors, Rows rows) {
  if (rows.count() == tensors.front().size(0)) return tensors;
  Tensors parts;
  for (const at::Tensor& each : tensors) parts.push_back(each.narrow(0, rows.begin, rows.count()));
  return parts;
}

/// Adds the gradients of `loss` times `factor`.
void run_backward(const at::Tensor& loss, double factor) {
  const AutocastScope plain(AutocastState::here().off());
  loss.backward(at::full_like(loss, factor));
}

class AutogradProgram : public Program {
 public:
  AutogradProgram(AutogradProgramSetup setup, const ParallelOptions& options)
      : setup_(std::move(setup)), micro_batches_(options.micro_batches), seed_(options.seed) {
    if (setup_.module != nullptr) check_.emplace(setup_.module);
  }

  TrainableModel& model() override { return *setup_.model; }
  std::string problem() const override { return check_ ? check_->problem() : ""; }
  int64_t modes() const override {
    if (setup_.module == nullptr) return mode_of(*setup_.model);
    uint64_t hash = 1;
    for (const auto& each : with_parts(*setup_.module)) hash = hash * 1099511628211U + (each->is_training() ? 2 : 1);
    return static_cast<int64_t>(hash);
  }
  std::shared_ptr<torch::nn::Module> module() const override { return setup_.module; }
  const InitialValues* initial() const override { return setup_.initial.get(); }
  bool reuses_parameters() const override { return setup_.module == nullptr; }
  Tensors forward(const Tensors& inputs) override {
    const at::NoGradGuard no_grad;
    return setup_.forward(inputs);
  }

  Tensors evaluate(const Tensors& inputs) override {
    Tensors outputs = forward(inputs);
    return setup_.reads ? std::move(outputs) : Tensors();
  }
  void restart(const Mesh& mesh) override {
    if (setup_.restart) setup_.restart(mesh);
  }
  const Tensors& example() const override { return setup_.example; }

  double accumulate(const ProgramPass& pass, GradientSums& sums) override {
    const std::vector<Part> parts = parts_of(pass, sums.gathers_in_passes());
    const auto last = std::find_if(parts.rbegin(), parts.rend(), [](const Part& part) { return part.has_backward; });
    std::vector<std::pair<at::Tensor, double>> means;  // with their factors
    GeneratorGuard generator;
    for (const Part& part : parts) {
      const c10::AutoGradMode records(part.has_backward);
      const auto held = last != parts.rend() && &part == &*last ? nullptr : sums.hold();
      if (part.rows.count() == 0) {
        idle();
      } else if (const at::Tensor mean = mean_of(pass, part, generator); part.has_backward && mean.requires_grad()) {
        const std::optional<IdlePass> no_gradient = part.factor == 0 ? std::make_optional<IdlePass>(std::vector<NamedTensor>()) : std::nullopt;
        run_backward(mean, part.factor);
        means.emplace_back(mean.detach(), part.factor);
      }
    }
    if (last == parts.rend()) sums.join();
    if (setup_.begin) setup_.begin((pass.update + 1) * micro_batches_, pass.place);
    double total = 0;
    for (const auto& [mean, factor] : means) total += mean.item<double>() * factor;
    return total;
  }

 private:
  struct Part {
    int64_t micro_batch = 0;
    Rows rows;
    double factor = 0;          // factor of its mean; 0: no target counts
    bool has_backward = false;  // otherwise its pass only updates buffers
  };

  /// The passes of this rank. @param all include parts without rows, and give each part a backward pass
  std::vector<Part> parts_of(const ProgramPass& pass, bool all) const {
    std::vector<Part> parts;
    for (int64_t m = 0; m < micro_batches_; ++m) {
      Part part{.micro_batch = m, .rows = pipeline::part_of({0, pass.rows}, micro_batches_, m)};
      if (part.rows.count() > 0) part.factor = pass.factor(narrow_all(pass.targets, part.rows), part.rows.count());
      part.has_backward = all || part.factor > 0;
      if (all || part.rows.count() > 0) parts.push_back(part);
    }
    return parts;
  }

  at::Tensor mean_of(const ProgramPass& pass, const Part& part, GeneratorGuard& generator) const {
    const int64_t number = pass.update * micro_batches_ + part.micro_batch;
    generator.seed(derived_seed(seed_, static_cast<uint64_t>(number)), static_cast<uint64_t>(pass.place));
    if (setup_.begin) setup_.begin(number, pass.place);
    const Tensors outputs = setup_.forward(narrow_all(pass.inputs, part.rows));
    if (part.factor == 0) return zero_loss(outputs);
    return pass.mean(outputs, narrow_all(pass.targets, part.rows));
  }

  void idle() const {
    const IdlePass idle(setup_.model->tensors().buffers);
    const int64_t rows = std::min<int64_t>(2, setup_.example.front().size(0));
    const at::Tensor loss = zero_loss(setup_.forward(narrow_all(setup_.example, {0, rows})));
    if (loss.requires_grad()) run_backward(loss, 1);
  }

  AutogradProgramSetup setup_;
  std::optional<ModuleCheck> check_;
  int64_t micro_batches_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Program> autograd_program(AutogradProgramSetup setup, const ParallelOptions& options) {
  return std::make_unique<AutogradProgram>(std::move(setup), options);
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"
#include "periodic_average.hpp"
#include "wrapped_model_check.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/diloco.hpp>
#include <tw/data_parallel/synchronize.hpp>

namespace tw {
namespace {

std::optional<c10::ScalarType> dtype_of(OuterPrecision precision) {
  switch (precision) {
    case OuterPrecision::full: return std::nullopt;
    case OuterPrecision::float16: return at::kHalf;
    case OuterPrecision::bfloat16: return at::kBFloat16;
  }
  return std::nullopt;
}

// Specs of the outer gradients as they are sent.
std::vector<TensorSpec> specs_of_deltas(std::vector<TensorSpec> specs, OuterPrecision precision) {
  const auto dtype = dtype_of(precision);
  if (!dtype) return specs;
  for (TensorSpec& spec : specs) {
    TW_EXPECTS(!c10::isComplexType(spec.dtype), spec.describe(), " is complex and cannot be sent in ", dtype_name(*dtype),
               ": outer_precision must be full");
    spec.dtype = *dtype;
  }
  return specs;
}

}  // namespace

void visit(DiLoCoOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, OuterPrecision>> precisions{
      {"full", OuterPrecision::full}, {"float16", OuterPrecision::float16}, {"bfloat16", OuterPrecision::bfloat16}};
  visitor.field("period", options.period, at_least(1), {.meaning = "inner steps between two outer steps", .unit = "steps"});
  visitor.field("outer_learning_rate", options.outer_learning_rate, {.least = 0, .excludes_least = true},
                {.meaning = "learning rate of the outer step"});
  visitor.field("outer_momentum", options.outer_momentum, {.least = 0, .most = 1, .excludes_most = true}, {.meaning = "momentum of the outer step"});
  visitor.field("nesterov", options.nesterov, {.meaning = "use Nesterov momentum"});
  visitor.field("outer_precision", options.outer_precision, precisions, {.meaning = "precision in which outer gradients are sent"});
}

void DiLoCoOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!nesterov || outer_momentum > 0, "nesterov needs outer_momentum to be positive, got 0");
}

DiLoCo::DiLoCo(const Communicator& comm, const torch::nn::Module& module, const DiLoCoOptions& options)
    : DiLoCo(comm, tensors_of_replica(comm, module), options) {
  wrapped_ = std::make_unique<WrappedModelCheck>("DiLoCo", module);
}

DiLoCo::DiLoCo(const Communicator& comm, const std::vector<NamedTensor>& tensors, const DiLoCoOptions& options)
    : options_(options), wrapped_(std::make_unique<WrappedModelCheck>("DiLoCo", tensors)), parameters_(trained(tensors)) {
  const std::vector<TensorSpec> specs = specs_of(parameters_);
  expect_same_strategy(comm, "DiLoCo", value_lines(options), specs);
  options.validate();
  const std::vector<TensorSpec> deltas = specs_of_deltas(specs, options.outer_precision);
  synchronize(comm, tensors);
  for (const NamedTensor& parameter : parameters_) {
    anchors_.push_back(parameter.tensor.detach().clone());
    if (options.outer_momentum > 0) momenta_.push_back(at::zeros_like(anchors_.back()));
  }
  average_ = std::make_unique<PeriodicAverage>(comm, "diloco/steps", deltas, device_of(comm, "DiLoCo", parameters_), options.period);
}

DiLoCo::~DiLoCo() = default;

bool DiLoCo::step() {
  wrapped_->expect_unchanged();
  if (!average_->count_step()) return false;
  outer_step();
  return true;
}

bool DiLoCo::finish() {
  if (!average_->steps_are_left()) return false;
  outer_step();
  return true;
}

void DiLoCo::outer_step() {
  average_->average([&](size_t id, const at::Tensor& place) { place.copy_(at::sub(anchors_[id], parameters_[id].tensor)); },
                    [&](size_t id, const at::Tensor& place) { update(id, place); });
}

void DiLoCo::update(size_t id, const at::Tensor& mean_delta) {
  const at::Tensor& anchor = anchors_[id];
  at::Tensor gradient = mean_delta.to(anchor.scalar_type());
  if (!momenta_.empty()) {
    const at::Tensor& momentum = momenta_[id];
    momentum.mul_(options_.outer_momentum).add_(gradient);
    gradient = options_.nesterov ? gradient.add_(momentum, options_.outer_momentum) : momentum;
  }
  anchor.add_(gradient, -options_.outer_learning_rate);
  parameters_[id].tensor.copy_(anchor);
}

std::vector<NamedShard> DiLoCo::shards() const {
  std::vector<NamedShard> shards;
  for (size_t id = 0; id < parameters_.size(); ++id) {
    shards.push_back(whole("diloco/anchor/" + parameters_[id].name, anchors_[id], ShardKind::optimizer));
    if (!momenta_.empty()) shards.push_back(whole("diloco/momentum/" + parameters_[id].name, momenta_[id], ShardKind::optimizer));
  }
  shards.push_back(average_->counter());
  return shards;
}

int64_t DiLoCo::buffer_bytes() const noexcept { return average_->buffer_bytes(); }
int64_t DiLoCo::bytes_communicated() const noexcept { return average_->bytes_communicated(); }
Seconds DiLoCo::exposed_time() const noexcept { return average_->exposed_time(); }

}  // namespace tw

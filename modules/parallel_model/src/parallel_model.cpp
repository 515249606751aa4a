// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/lbfgs.h>

#include <algorithm>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <typeinfo>

#include "make_parallel_model.hpp"
#include "parallel_model_impl.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<std::string> names_of(const std::vector<OptimizedTensor>& tensors) {
  std::vector<std::string> names;
  for (const OptimizedTensor& each : tensors) names.push_back(each.slices.at(0).name);
  return names;
}

/// Parameters that forward passes change in place.
std::vector<NamedTensor> renormalised_of(const ModelTensors& tensors) {
  std::vector<NamedTensor> changed;
  for (const NamedTensor& each : tensors.parameters) {
    if (std::ranges::find(tensors.renormalised, each.name) != tensors.renormalised.end()) changed.push_back(each);
  }
  return changed;
}

/// The device type of the tensors, or of tensors that have no memory yet once they get it.
c10::DeviceType kind_of(const ModelTensors& tensors) {
  const std::vector<NamedTensor> placed = with_memory(tensors.all_tensors());
  return placed.empty() ? at::kCPU : placed.front().tensor.device().type();
}

}  // namespace

ParallelModel::Impl::Impl(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program, const ParallelOptions& options)
    : calls_(std::move(calls)),
      replicas_(options.replicas),
      lasting_(is_independent(of) ? of.comm().split(of.coordinate("data"), of.comm().rank()) : of.comm().dup()),
      ranks_(std::make_unique<ModelRanks>(mesh(), replicas_)),
      micro_batches_(options.micro_batches),
      program_(std::move(program)),
      place_of_(ranks_->place_of()),
      parameters_(model().tensors().tensors()),
      state_(model().shards()),
      names_(names_of(model().trained_tensors())),
      counted_(counted_here(ranks_->model().comm(), model().trained_tensors())),
      buffers_(model().tensors().buffers),
      renormalised_(renormalised_of(model().tensors())),
      compute_(options.compute),
      kind_(kind_of(model().tensors())),
      sums_(make_sums(options)),
      optimized_(sums_->optimized()),
      explanation_(program_->explain()) {
  for (size_t i = 0; i < optimized_.size(); ++i) {
    named_.push_back({names_[i], optimized_[i].tensor});
    own_tensors_.insert(optimized_[i].tensor.unsafeGetTensorImpl());
    if (has_guarded_gradient(optimized_[i].tensor)) guard_gradient(optimized_[i].tensor, "clip_grad_norm() of a ParallelModel");
  }
  sums_->only_in_updates(
      "gradients of a ParallelModel are made by train_step(), which sums them over the ranks: add the tensor on which backward() was "
      "called to the loss");
  // Also makes sure that no rank still waits here when the first call fails on another rank.
  on_all_ranks(of.comm(), "compressing gradients", [&] {
    TW_EXPECTS(!options.compressor || options.compressor->shards().empty(), "a ParallelModel accepts compressors without residuals only, got ",
               options.compressor->describe(),
               ": residuals can be restored neither after a failed step nor on another mesh. Use half_compression(), or a DataParallel");
  });
}

std::unique_ptr<GradientSums> ParallelModel::Impl::make_sums(const ParallelOptions& options) const {
  on_all_ranks(mesh().comm(), "mixed precision", [&] { expect_autocast(compute_, model().tensors().parameters, kind_); });  // before sharding
  const std::vector<NamedTensor> filled = with_memory(model().tensors().all_tensors());
  if (ranks_->places().comm() != nullptr) synchronize(*ranks_->places().comm(), filled);
  if (const Communicator* holders = ranks_->model().comm()) {
    const auto parts = model_parts(*holders, model());
    on_all_ranks(mesh().comm(), "comparing tensors that several ranks hold", [&] { expect_equal_replicas({parts}, filled); });
  }
  const SumRanks ranks = ranks_->of_sums();
  if (ranks.shard == nullptr) return whole_parameters(ranks, model(), {.reduction = Reduction::sum, .compressor = options.compressor});
  const int64_t resident = program_->reuses_parameters() ? std::numeric_limits<int64_t>::max() : options.resident_bytes;
  return sharded_parameters(ranks, model(),
                            {.options = {.reduction = Reduction::sum,
                                         .unit_bytes = options.unit_bytes,
                                         .prefetch_units = options.prefetch_units,
                                         .resident_bytes = resident,
                                         .one_copy_per_node = options.one_copy_per_node},
                             .module = program_->module().get(),
                             .initial = program_->initial()});
}

void ParallelModel::Impl::begin() {
  calls_->begin([&] {
    ranks_.reset();
    ranks_ = std::make_unique<ModelRanks>(mesh(), replicas_);
    program_->restart(mesh());
    sums_->restart(ranks_->of_sums());
    split_draws_ = {};     // the failed call may have been a check, and ended at different points
    has_stepped_ = false;  // likewise, and memory() must make the same passes on all ranks
  });
}

ParallelModel make_parallel_model(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program, const ParallelOptions& options) {
  return ParallelModel(std::make_unique<ParallelModel::Impl>(of, std::move(calls), std::move(program), options));
}

ParallelModel::ParallelModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParallelModel::ParallelModel(ParallelModel&&) noexcept = default;
ParallelModel& ParallelModel::operator=(ParallelModel&&) noexcept = default;
ParallelModel::~ParallelModel() = default;

std::vector<at::Tensor> ParallelModel::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const OptimizedTensor& each : impl_->optimized_) tensors.push_back(each.tensor);
  return tensors;
}
const std::vector<NamedTensor>& ParallelModel::named_parameters() const noexcept { return impl_->named_; }
std::vector<NamedTensor> ParallelModel::named_buffers() const { return impl_->model().tensors().buffers; }
std::vector<OptimizedTensor> ParallelModel::optimized() const { return impl_->optimized_; }

double ParallelModel::train_step(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss) {
  return train_step(Tensors{inputs}, Tensors{targets}, loss);
}
double ParallelModel::train_step(const Tensors& inputs, const Tensors& targets, const Loss& loss) { return impl_->train_step(inputs, targets, loss); }
UpdateMemory ParallelModel::memory(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss, const torch::optim::Optimizer& optimizer) {
  return memory(Tensors{inputs}, Tensors{targets}, loss, optimizer);
}
UpdateMemory ParallelModel::memory(const Tensors& inputs, const Tensors& targets, const Loss& loss, const torch::optim::Optimizer& optimizer) {
  return impl_->memory(inputs, targets, loss, optimizer);
}
double ParallelModel::clip_grad_norm(double max_norm) {
  TW_EXPECTS(max_norm > 0, "max_norm must be positive, got ", max_norm);
  impl_->begin();
  return impl_->calls_->together([&] { return impl_->clip(max_norm); });
}
bool ParallelModel::step(torch::optim::Optimizer& optimizer, const StepOptions& options) {
  TW_EXPECTS(options.max_norm >= 0, "max_norm must be at least 0, got ", options.max_norm);
  TW_EXPECTS(typeid(optimizer) != typeid(torch::optim::LBFGS), "LBFGS makes several passes per step, and combines all elements: step() needs an ",
             "optimizer that updates each element independently, such as SGD or Adam");
  impl_->begin();
  impl_->expect_own(optimizer, options);
  return impl_->calls_->together([&] { return impl_->step(optimizer, options); });
}

at::Tensor ParallelModel::forward(const at::Tensor& inputs) {
  const Tensors outputs = forward(Tensors{inputs});
  TW_EXPECTS(outputs.size() == 1, "the model has ", outputs.size(), " outputs: forward() of a list of tensors returns them");
  return outputs.front();
}
std::vector<at::Tensor> ParallelModel::forward(const Tensors& inputs) {
  const bool communicates = impl_->ranks_->model().size() > 1 || impl_->sums_->gathers_in_passes();
  TW_EXPECTS(!impl_->calls_->has_failed() || !communicates,
             "a call of this model has failed: forward() can follow after the next train_step(), evaluate() or clip_grad_norm(). What failed: ",
             impl_->calls_->failure());
  return impl_->calls_->together([&] { return impl_->forward(inputs); });
}
std::vector<double> ParallelModel::evaluate(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows) {
  TW_EXPECTS(rows >= 0, "rows must be at least 0, got ", rows);
  return impl_->evaluate(inputs, targets, sums, rows);
}
void ParallelModel::train(bool on) { impl_->model().set_training(on); }

int ParallelModel::places() const noexcept { return impl_->ranks_->places().size(); }
int ParallelModel::place() const noexcept { return impl_->ranks_->places().rank(); }
DistributedSampler ParallelModel::sampler(size_t samples, const SamplerOptions& options) const { return {samples, places(), place(), options}; }

const std::string& ParallelModel::explain() const { return impl_->explanation_; }

}  // namespace tw

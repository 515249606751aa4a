// SPDX-License-Identifier: Apache-2.0
#include <c10/util/ScopeExit.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/data_parallel/split_draws_check.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/error.hpp>
#include <tw/parallel_model/parallel_model.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <tw/state/optimizer_memory.hpp>
#include <tw/tensor/memory_account.hpp>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "buffer_rules.hpp"
#include "load_files.hpp"
#include "make_parallel_model.hpp"
#include "model_ranks.hpp"
#include "model_state.hpp"
#include "step_agreement.hpp"

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

/// Rows of those tensors that this rank has.
Tensors narrow_given(const Tensors& tensors, pipeline::Rows rows) {
  Tensors parts;
  for (const at::Tensor& each : tensors) parts.push_back(each.defined() ? each.narrow(0, rows.begin, rows.count()) : each);
  return parts;
}

/// Memory of a step without the optimizer's.
struct StepMemory {
  MemoryByUse kept;
  MemoryPeak peak;
};

/// @param first of the first step, before the optimizer has its state; nothing if it was made
UpdateMemory with_optimizer(StepMemory step, const MemoryPeak& first, const OptimizerMemory& optimizer) {
  step.kept[MemoryUse::optimizer] += optimizer.state_bytes;
  step.peak.held[MemoryUse::optimizer] += optimizer.state_bytes;
  MemoryPeak update{.held = step.kept, .during = "update", .step = step.peak.step};
  update.held[MemoryUse::activations] += optimizer.temporary_bytes;
  const bool is_first_larger = first.held.together() > step.peak.held.together();
  return {step.kept, is_first_larger ? first : std::move(step.peak), std::move(update)};
}

}  // namespace

class ParallelModel::Impl {
 public:
  Impl(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program, const ParallelOptions& options)
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

  void begin() {
    calls_->begin([&] {
      ranks_.reset();
      ranks_ = std::make_unique<ModelRanks>(mesh(), replicas_);
      program_->restart(mesh());
      sums_->restart(ranks_->of_sums());
      split_draws_ = {};     // the failed call may have been a check, and ended at different points
      has_stepped_ = false;  // likewise, and memory() must make the same passes on all ranks
    });
  }

  /// Why this rank cannot make a pass; empty: it can.
  std::string problem_of(BatchFacts::Call call, const Tensors& inputs) const {
    const auto is_computed = [](const at::Tensor& each) { return each.defined() && each.requires_grad() && !each.is_leaf(); };
    if (call != BatchFacts::Call::evaluate && std::ranges::any_of(inputs, is_computed)) {
      return "the inputs depend on tensors that require gradients, but a ParallelModel does not pass gradients on to its inputs: detach() them, or "
             "add what computes them to the module";
    }
    return program_->problem();
  }

  /// The facts of this rank's batch, and what all ranks agree on. Throws on all ranks alike, before anything has changed.
  std::pair<BatchFacts, Update> agree(BatchFacts::Call call, const Tensors& inputs, const Tensors& targets, const Loss& loss) {
    const std::string problem = problem_of(call, inputs);
    BatchFacts facts{.rows = BatchFacts::refused};
    if (problem.empty()) facts = calls_->together([&] { return facts_of(inputs, targets, loss, ranks_->model().size() > 1); });
    facts.call = call;
    facts.modes = program_->modes();
    try {
      return {facts, agree_on_update(ranks_->comm(), facts, place_of_)};
    } catch (const ContractError&) {
      TW_EXPECTS(problem.empty(), problem);
      throw;
    } catch (const RevokedError&) {  // another rank has begun, and failed
      calls_->fail();
      if (call != BatchFacts::Call::evaluate) drop_gradients();
      throw;
    }
  }

  void drop_gradients() const {
    for (const NamedTensor& each : model().tensors().parameters) each.tensor.mutable_grad() = at::Tensor();
    for (const OptimizedTensor& each : optimized_) each.tensor.mutable_grad() = at::Tensor();
  }

  double train_step(const Tensors& inputs, const Tensors& targets, const Loss& loss) {
    begin();
    const auto [facts, update] = agree(BatchFacts::Call::train_step, inputs, targets, loss);
    remember();
    try {
      return calls_->together([&, target_weight = facts.weight, &all = update] {
        const double mean = make_step(inputs, targets, loss, target_weight, all);
        state_.count_update();
        return mean;
      });
    } catch (...) {
      undo_step();
      throw;
    }
  }

  /// Call before a step that may be undone.
  void remember() {
    buffers_.remember();
    renormalised_.remember();
  }

  void undo_step() const {
    buffers_.restore();
    renormalised_.restore();
    drop_gradients();
  }

  UpdateMemory memory(const Tensors& inputs, const Tensors& targets, const Loss& loss, const torch::optim::Optimizer& optimizer) {
    begin();
    const auto [facts, update] = agree(BatchFacts::Call::memory, inputs, targets, loss);
    const OptimizerMemory of_optimizer =
        on_all_ranks(ranks_->comm(), "predicting the memory of the optimizer", [&] { return optimizer_memory(optimizer); });
    const auto count_step = [&, target_weight = facts.weight, &all = update] {
      return count_memory([&] { (void)make_step(inputs, targets, loss, target_weight, all); });
    };
    // The first step differs: layers in parallel are captured, and the order of units becomes known.
    MemoryPeak first = has_stepped_ ? MemoryPeak() : count_step().peak;
    if (!optimizer.state().empty()) first.held[MemoryUse::optimizer] += of_optimizer.state_bytes;
    return with_optimizer(count_step(), first, of_optimizer);
  }

  /// Makes a step, and undoes it.
  StepMemory count_memory(const std::function<void()>& step) {
    drop_gradients();
    remember();
    const auto undo = c10::make_scope_exit([this] { undo_step(); });
    MemoryAccount account(kind_);
    account.begin();
    account.phase("train_step");
    calls_->together(step);
    KnownMemory known;
    sums_->account(known);
    buffers_.account(known);
    renormalised_.account(known);
    account.end(state_.updates(), known);
    return {known.bytes(), account.peak()};
  }

  double make_step(const Tensors& inputs, const Tensors& targets, const Loss& loss, double target_weight, const Update& update) {
    const RanksAlong& samples = ranks_->samples();
    const auto place = static_cast<size_t>(samples.rank());
    const std::vector<std::pair<at::Tensor, at::Tensor>> frozen = frozen_gradients();
    double total = accumulate({.inputs = inputs,
                               .targets = targets,
                               .loss = loss,
                               .rows = update.rows[place],
                               .target_weight = target_weight,
                               .weight = update.weight,
                               .update = state_.updates(),
                               .place = ranks_->places().rank(),
                               .warns = !has_stepped_ && ranks_->places().size() > 1 && ranks_->places().rank() == 0,
                               .parameters = parameters_});
    has_stepped_ = true;
    for (const auto& [tensor, gradient] : frozen) set_gradient(tensor, gradient);
    if (samples.size() > 1) {
      std::vector<double> changed = buffers_.changed();
      changed.push_back(total);
      allreduce(*samples.comm(), at::from_blob(changed.data(), {static_cast<int64_t>(changed.size())}, at::kDouble), ReduceOp::sum);
      total = changed.back();
      changed.pop_back();
      if (std::ranges::any_of(changed, [](double each) { return each > 0; })) {
        buffers_.apply(*samples.comm(), changed, static_cast<double>(update.rows[place]) / static_cast<double>(update.all_rows));
      }
    }
    if (ranks_->model().size() > 1) ranks_->comm().barrier();  // the step counts on all ranks, or on none
    return total / loss.scale();
  }

  /// Tensors that were frozen after parallelize(), with their gradients, to which passes must add nothing.
  std::vector<std::pair<at::Tensor, at::Tensor>> frozen_gradients() const {
    std::vector<std::pair<at::Tensor, at::Tensor>> frozen;
    for (const OptimizedTensor& each : optimized_) {
      const at::Tensor& gradient = each.tensor.grad();
      if (!each.tensor.requires_grad()) frozen.emplace_back(each.tensor, gradient.defined() ? gradient.clone() : gradient);
    }
    return frozen;
  }

  double accumulate(const ProgramPass& pass) {
    const auto update = sums_->update();
    const ComputeScope compute(compute_, kind_);
    const bool is_split = size_along(mesh().shape(), "tensor") > 1 && pass.rows > 0;  // a pass without rows draws nothing that counts
    if (!is_split) return program_->accumulate(pass, *sums_);
    double loss = 0;
    split_draws_.run(mesh()["tensor"], program_->modes(), [&] { loss = program_->accumulate(pass, *sums_); });
    return loss;
  }

  Tensors forward(const Tensors& inputs) {
    const std::string problem = program_->problem();
    TW_EXPECTS(problem.empty(), problem);
    const ComputeScope compute(compute_, kind_);
    return program_->forward(inputs);
  }

  /// Outputs for sums, in at least float32.
  Tensors outputs_of(const Tensors& inputs) {
    const ComputeScope compute(compute_, kind_);
    Tensors outputs = program_->evaluate(inputs);
    for (at::Tensor& each : outputs) each = in_float32(each);
    return outputs;
  }

  std::vector<double> evaluate(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows) {
    begin();
    const Update batch = agree(BatchFacts::Call::evaluate, inputs, targets, Loss::over_rows()).second;
    return calls_->together([&] { return make_evaluation(inputs, targets, sums, rows, batch); });
  }

  std::vector<double> make_evaluation(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows,
                                      const Update& batch) {
    const int64_t here = batch.rows[static_cast<size_t>(ranks_->samples().rank())];
    const int64_t most = *std::ranges::max_element(batch.rows);
    const int64_t chunk = rows > 0 ? rows : divide_up(most, micro_batches_);
    std::vector<double> totals(sums.size(), 0);
    for (int64_t begin = 0; begin < (sums_->gathers_in_passes() ? most : here); begin += chunk) {
      const pipeline::Rows part{std::min(begin, here), std::min(begin + chunk, here)};
      const bool counts = part.count() > 0;
      const Tensors outputs = outputs_of(counts ? narrow_given(inputs, part) : program_->example());
      if (!counts || outputs.empty()) continue;
      for (size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i](outputs, narrow_given(targets, part));
    }
    allreduce(ranks_->comm(), at::from_blob(totals.data(), {static_cast<int64_t>(totals.size())}, at::kDouble), ReduceOp::sum);
    return totals;
  }

  double clip(double max_norm) {
    GradientShare share;
    TW_ASSERT(counted_.size() == optimized_.size() || optimized_.empty());
    for (size_t i = 0; i < optimized_.size(); ++i) {
      const at::Tensor& gradient = optimized_[i].tensor.grad();
      if (gradient.defined()) (counted_[i] != 0 ? share.counted : share.others).push_back(gradient);
    }
    if (ranks_->parts().comm() != nullptr) share.sum_over.push_back(ranks_->parts().comm());
    return clip_gradient_norm(share, max_norm);
  }

  /// Checks that the optimizer trains only the model's tensors, since others would be neither unscaled nor clipped. Frozen tensors are allowed, and
  /// those of other stages, which have no memory. Checks only the first step that divides or clips; throws on all ranks alike.
  void expect_own(const torch::optim::Optimizer& optimizer, const StepOptions& options) {
    if (knows_optimizer_ || (options.scaler == nullptr && options.max_norm == 0)) return;
    on_all_ranks(ranks_->comm(), "checking the optimizer of a step", [&] {
      for (const auto& group : optimizer.param_groups()) {
        for (const at::Tensor& each : group.params()) {
          const bool is_trained = each.requires_grad() && each.has_storage() && each.storage().nbytes() > 0;
          TW_EXPECTS(!is_trained || own_tensors_.contains(each.unsafeGetTensorImpl()), "the optimizer has a tensor of shape ", each.sizes(),
                     " that is not the model's, whose gradient step() would neither divide by the scale of the loss nor clip: train it with a ",
                     "separate optimizer");
        }
      }
    });
    knows_optimizer_ = true;
  }

  bool step(torch::optim::Optimizer& optimizer, const StepOptions& options) {
    const double scale = options.scaler == nullptr ? 1 : options.scaler->scale();
    const double norm = clip(options.max_norm > 0 ? options.max_norm * scale : std::numeric_limits<double>::infinity());
    const bool is_finite = std::isfinite(norm);
    if (options.scaler != nullptr) options.scaler->update(is_finite);
    if (!is_finite) return false;
    if (scale != 1) {
      const at::NoGradGuard no_grad;
      for (const OptimizedTensor& each : optimized_) {
        if (each.tensor.grad().defined()) each.tensor.mutable_grad().div_(scale);
      }
    }
    optimizer.step();
    return true;
  }

  OptimizerState state_of(torch::optim::Optimizer& optimizer) const {
    return on_all_ranks(lasting_, "reading the state of the optimizer", [&] { return OptimizerState(optimizer, optimized_); });
  }

  bool is_independent(const Mesh& mesh) const { return replicas_ == ReplicaSync::independent && size_along(mesh.shape(), "data") > 1; }
  TrainableModel& model() const { return program_->model(); }
  const Mesh& mesh() const { return calls_->mesh(); }

  std::unique_ptr<GradientSums> make_sums(const ParallelOptions& options) const {
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

  std::shared_ptr<Calls> calls_;
  ReplicaSync replicas_;
  Communicator lasting_;  // ranks that communicate in every update; never revoked, so that a model whose call has failed can be saved
  std::unique_ptr<ModelRanks> ranks_;
  int64_t micro_batches_;
  std::unique_ptr<Program> program_;
  std::vector<int> place_of_;  // place of each rank that communicates in every update, see ModelRanks::place_of()
  Tensors parameters_;         // parameters of the model on this rank
  bool has_stepped_ = false;
  bool knows_optimizer_ = false;  // whether a step() has checked it
  SplitDrawsCheck split_draws_;
  ModelState state_;
  std::vector<std::string> names_;  // by optimized tensor
  std::vector<uint8_t> counted_;    // by optimized tensor
  BufferRules buffers_;
  BufferRules renormalised_;  // parameters that a pass changes in place, and that are restored as buffers are
  ComputeType compute_;
  c10::DeviceType kind_;
  std::unique_ptr<GradientSums> sums_;
  std::vector<OptimizedTensor> optimized_;
  std::vector<NamedTensor> named_;  // tensors of optimized_
  std::unordered_set<const c10::TensorImpl*> own_tensors_;
  std::string explanation_;
};

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

std::vector<NamedShard> ParallelModel::shards() const { return impl_->state_.shards(*impl_->sums_); }

void ParallelModel::save(CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer, const std::string& metadata) const {
  std::vector<NamedShard> all = shards();
  const std::vector<NamedShard> state = impl_->state_of(optimizer).shards();
  all.insert(all.end(), state.begin(), state.end());
  store.save(step, all, metadata);
}

std::string ParallelModel::load(const CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer) {
  impl_->begin();
  const at::NoGradGuard no_grad;
  OptimizerState state = impl_->state_of(optimizer);
  state.prepare(store.names(step));
  std::vector<NamedShard> all = shards();
  const std::vector<NamedShard> of_optimizer = state.shards();
  all.insert(all.end(), of_optimizer.begin(), of_optimizer.end());
  std::string metadata = store.load(step, all);
  impl_->sums_->parameters_written();
  state.apply(all);
  return metadata;
}

void ParallelModel::load(const std::vector<std::filesystem::path>& files, const std::function<std::string(const std::string& name)>& name_in_files) {
  impl_->begin();
  load_files(impl_->mesh().comm(), impl_->state_.tensors(*impl_->sums_), files, name_in_files);
  impl_->sums_->parameters_written();
}

std::vector<NamedTensor> ParallelModel::whole_on_root() const {
  impl_->begin();
  return full_tensors_on_root(impl_->mesh().comm(), impl_->state_.tensors(*impl_->sums_));
}

const std::string& ParallelModel::explain() const { return impl_->explanation_; }

}  // namespace tw

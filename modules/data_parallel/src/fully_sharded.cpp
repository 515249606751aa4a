// SPDX-License-Identifier: Apache-2.0
#include "gradient_placeholders.hpp"
#include "module_tensors.hpp"
#include "parameter_slices.hpp"
#include "unit_values.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/step_communicator.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/initial_values.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

namespace tw {
namespace {

/// By parameter: index of the first of `units` that contains it, or units.size().
std::vector<int64_t> groups_of(const std::vector<NamedTensor>& parameters, const std::vector<std::string>& units) {
  std::vector<int64_t> groups;
  if (units.empty()) return groups;
  std::vector<uint8_t> found(units.size());
  for (const NamedTensor& parameter : parameters) {
    const auto unit = std::find_if(units.begin(), units.end(), [&](const std::string& name) { return parameter.name.starts_with(name + '.'); });
    groups.push_back(unit - units.begin());
    if (unit != units.end()) found[static_cast<size_t>(unit - units.begin())] = 1;
  }
  for (size_t i = 0; i < units.size(); ++i)
    TW_EXPECTS(found[i] != 0, "there is no submodule ", units[i], " with a parameter that requires a gradient");
  return groups;
}

constexpr const char* in_slices =
    "use the gradients of FullySharded::slices() (of a ParallelModel: parameters()), make the optimizer over these tensors, call its zero_grad(), "
    "and clip by FullySharded::clip_gradient_norm() (of a ParallelModel: clip_grad_norm())";

bool has_hook(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (meta == nullptr || meta->cpp_hooks_list_ == nullptr) return false;
  return std::any_of(meta->cpp_hooks_list_->begin(), meta->cpp_hooks_list_->end(), [](const auto& hook) { return hook != nullptr; });  // not removed
}

UseMoment moment_of_use() {
  using enum UseMoment::Pass;
  if (const auto node = torch::autograd::get_current_node()) return {backward, node->sequence_nr()};
  return at::GradMode::is_enabled() ? UseMoment{forward, at::sequence_number::peek()} : UseMoment{evaluation};
}

/// Sets a flag for its own lifetime.
class Busy {
 public:
  explicit Busy(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
  ~Busy() { flag_ = before_; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  bool& flag_;
  bool before_;
};

}  // namespace

class FullySharded::Impl final : public MemoryOwner {
 public:
  // Collective. @param model as for DataParallel: a module or its tensors. @param all its parameters and buffers
  template <class Model>
  Impl(const Communicator& of, const Model& model, std::vector<NamedTensor> all, const FullyShardedOptions& chosen, const FullyShardedSetup& setup)
      : steps_(of), options_(checked(steps_.comm(), chosen)), slices_(steps_.comm(), this, options_) {
    const at::NoGradGuard no_grad;
    if (setup.replicas != nullptr) replicas_.emplace(*setup.replicas);
    TW_EXPECTS(!replicas_ || options_.reduction != Reduction::sample_weighted, "replicas support only Reduction::sum and mean");
    const std::vector<NamedTensor> parameters = trained(all);
    if constexpr (std::is_same_v<Model, torch::nn::Module>) parts_ = model_parts(model);
    TW_EXPECTS(parts_.empty() || !replicas_, "FullySharded of split layers cannot have replicas: leave out FullyShardedSetup::replicas");
    const std::vector<int64_t> groups = groups_of_replicas(specs_of(parameters), parts_, groups_of(parameters, options_.units));
    const DataParallelOptions reducer{.reduction = options_.reduction,
                                      .buckets = {options_.unit_bytes, options_.unit_bytes},
                                      .check_finite = options_.check_finite,
                                      .sharding = Sharding::slices,
                                      .release = true,
                                      .groups = groups,
                                      .parts = parts_};
    TW_EXPECTS(!parameters.empty(), "FullySharded needs at least one parameter that requires a gradient");
    for (const NamedTensor& each : all) {
      TW_EXPECTS(!options_.one_copy_per_node || each.tensor.is_cpu() || each.tensor.is_meta(), "one_copy_per_node needs parameters on the CPU, got ",
                 each.name, " on ", each.tensor.device().str());
    }
    make_equal(all, setup.initial);
    expect_memory_of_their_own(all);
    const Arrangement arrangement{.slices = comm_.size(), .groups = groups};
    slices_.add(parameters, plan_buckets(computed(parameters), reducer.buckets, arrangement), setup.initial);
    // Buffers stay whole. A plain list cannot tell buffers from frozen parameters.
    std::erase_if(all, [](const NamedTensor& each) { return each.tensor.requires_grad() || !each.tensor.is_floating_point(); });
    if constexpr (std::is_same_v<Model, torch::nn::Module>) {
      const std::vector<NamedTensor> of_module = tensors_of(model.named_parameters());
      const auto buffers = std::stable_partition(all.begin(), all.end(), [&](const NamedTensor& each) {
        return std::any_of(of_module.begin(), of_module.end(), [&](const NamedTensor& other) { return other.tensor.is_same(each.tensor); });
      });
      for (auto buffer = buffers; buffer != all.end(); ++buffer) {
        if (buffer->tensor.is_meta()) setup.initial->allocate(buffer->tensor, buffer->name);
      }
      all.erase(buffers, all.end());
    }
    if (!all.empty()) slices_.add(all, plan_buckets(computed(all), reducer.buckets, {.slices = comm_.size()}), setup.initial);
    for (const NamedTensor& slice : trained_slices()) guard_gradient(slice.tensor, "FullySharded::clip_gradient_norm()");
    placeholders_ = std::make_shared<GradientPlaceholders>(parameters, in_slices);
    // not make_unique: the constructor is private
    const DataParallel::NoInitialBroadcast part{placeholders_, [this] { begin_pass(); }, [this] { before_reduction(); }, [this] { end_pass(); }};
    parallel_.reset(new DataParallel(part, comm_, model, reducer));
    find_reduced();
    if (options_.one_copy_per_node) {
      values_ = one_copy_values(comm_, slices_);
    } else {
      orders_ = OrderCheck::of(of);
      values_ = gathered_values(comm_, orders_, slices_, this->reducer(), options_, [this](const std::string& why) { give_up(why); });
    }
    if constexpr (std::is_same_v<Model, torch::nn::Module>) buffers_ = model.buffers();
    busy_ = false;
    steps_.barrier();
    if (replicas_) replicas_->barrier();
  }

  void before_operator(std::span<const WatchedArgument> arguments, const std::string& op) override;

  const ParameterSlices& slices() const noexcept { return slices_; }
  const std::vector<NamedTensor>& trained_slices() const noexcept { return slices_.trained(); }
  const UnitValues::Figures& figures() const noexcept { return values_->figures(); }
  DataParallel& parallel() noexcept { return *parallel_; }
  bool finite() const noexcept { return finite_; }
  int64_t payload_bytes() const noexcept { return parallel_->reducer().payload_bytes() + figures().payload_bytes + over_replicas_; }
  double clip(double max_norm) const;
  std::shared_ptr<void> begin_step();
  std::shared_ptr<void> begin_update();
  void fail_step();
  void restart_over(const Communicator& comm, const Communicator* replicas);
  void slices_changed() {
    const Busy busy(busy_);
    values_->written();
  }

 private:
  static FullyShardedOptions checked(const Communicator& comm, FullyShardedOptions options) {
    expect_same_on_all_ranks(comm, "the options of FullySharded", value_lines(options));
    options.validate();
    TW_EXPECTS(!options.one_copy_per_node || find_topology(comm).nodes == 1,
               "one_copy_per_node needs all ranks on one node: shard over the ranks of a node, and pass the others as FullyShardedSetup::replicas");
    return options;
  }

  std::vector<TensorSpec> computed(const std::vector<NamedTensor>& parameters) const;
  void make_equal(const std::vector<NamedTensor>& tensors, const InitialValues* initial) const;
  void drop_where_dropped(size_t slice);
  void begin_pass();
  void before_reduction();
  void end_pass();
  void give_up(const std::string& why) const;
  void find_reduced();
  void begin_again();
  void drop_gradients();
  void restart();
  void end_step() noexcept;
  std::vector<uint8_t> reduce_over_replicas();
  Reducer& reducer() noexcept { return parallel_->reducer(); }

  StepCommunicator steps_;
  const Communicator& comm_ = steps_.comm();
  const FullyShardedOptions options_;
  std::optional<StepCommunicator> replicas_;
  ParameterSlices slices_;  // trained units have their buckets' numbers
  std::shared_ptr<GradientPlaceholders> placeholders_;
  ModelPartsList parts_;
  std::unique_ptr<DataParallel> parallel_;
  std::shared_ptr<OrderCheck> orders_;  // null where nothing is gathered
  std::unique_ptr<UnitValues> values_;
  std::vector<at::Tensor> reduced_;  // by slice, the reducer's memory for its gradient
  int64_t over_replicas_ = 0;        // bytes passed to collectives
  bool finite_ = true;               // gradients of the last pass
  bool in_train_step_ = false;
  bool has_failed_ = false;                    // the last train_step() failed
  std::vector<at::Tensor> buffers_;            // of the module
  std::optional<TensorSnapshot> before_step_;  // their values
  bool busy_ = true;                           // ignore operators that this class calls
};

// Specs in the dtype in which parameters are gathered.
std::vector<TensorSpec> FullySharded::Impl::computed(const std::vector<NamedTensor>& parameters) const {
  std::vector<TensorSpec> specs = specs_of(parameters);
  for (TensorSpec& spec : specs) spec.dtype = options_.compute_dtype.value_or(spec.dtype);
  return specs;
}

// Synchronizes the tensors that have memory; for the others, checks that they can be filled.
void FullySharded::Impl::make_equal(const std::vector<NamedTensor>& tensors, const InitialValues* initial) const {
  for (const NamedTensor& each : tensors) {
    if (!each.tensor.is_meta()) continue;
    TW_EXPECTS(initial != nullptr, each.name, " has no memory: pass FullyShardedSetup::initial");
    initial->fill(at::empty({0}), each.tensor, 0, each.name);  // throws on all ranks or none
  }
  const std::vector<NamedTensor> filled = with_memory(tensors);
  if (replicas_) synchronize(replicas_->comm(), filled);
  synchronize(comm_, filled);
  expect_equal_replicas(parts_, filled);
}

void FullySharded::Impl::before_operator(std::span<const WatchedArgument> arguments, const std::string& /*op*/) {
  if (busy_) return;
  const UseMoment moment = moment_of_use();
  const Busy busy(busy_);
  const at::NoGradGuard no_grad;
  c10::SmallVector<size_t, 4> used;
  for (const WatchedArgument& each : arguments) {
    if (each.memory->owner != this || slices_.is_slice(each.memory)) continue;
    TW_EXPECTS(!each.written, "an operator would change parameter ", slices_.unit(each.memory->index).name_at(each.offset),
               " in place, but its slices would keep the old values: change the slices, and make the optimizer over FullySharded::slices(), or ",
               "ParallelModel::parameters()");
    if (std::find(used.begin(), used.end(), each.memory->index) == used.end()) used.push_back(each.memory->index);
  }
  if (!used.empty() && has_failed_ && !in_train_step_) begin_again();
  if (!used.empty()) values_->use({used.data(), used.size()}, moment);
  for (const WatchedArgument& each : arguments) {
    const bool writes = each.memory->owner == this && each.written && slices_.is_slice(each.memory);
    if (writes) values_->write(each.memory->index, {used.data(), used.size()});
  }
}

// Wakes ranks that wait elsewhere for ranks that will not come.
void FullySharded::Impl::give_up(const std::string& why) const {
  comm_.revoke(why);
  if (replicas_) replicas_->comm().revoke(why);
}

// The reducer's memory for the gradient of each slice.
void FullySharded::Impl::find_reduced() {
  reduced_.clear();
  for (size_t i = 0; i < trained_slices().size(); ++i) {
    TW_ASSERT(parallel_->plan().placements[i].bucket == static_cast<int64_t>(slices_.unit_of(i)));
    reduced_.push_back(slices_.slice_in(reducer().shard(parallel_->plan().placements[i].bucket), i));
  }
}

std::shared_ptr<void> FullySharded::Impl::begin_step() {
  TW_EXPECTS(!in_train_step_, "train_step() was called within a train_step()");
  begin_again();
  if (!buffers_.empty()) before_step_.emplace(buffers_);
  in_train_step_ = true;
  return {nullptr, [this](void*) { end_step(); }};
}

void FullySharded::Impl::end_step() noexcept {
  in_train_step_ = false;
  before_step_.reset();
}

// Ranks also wait along replicas, so each rank that fails revokes that communicator too.
void FullySharded::Impl::fail_step() {
  has_failed_ = true;
  steps_.fail();
  if (replicas_) replicas_->fail();
  if (orders_) orders_->revoke(message_of_current_exception());
  const Busy busy(busy_);
  if (before_step_) before_step_->restore();
  drop_gradients();
}

void FullySharded::Impl::drop_gradients() {
  parallel_->drop_gradients();
  for (const NamedTensor& slice : trained_slices()) slice.tensor.mutable_grad() = at::Tensor();
}

// Collective if a step has failed; else local.
void FullySharded::Impl::begin_again() {
  try {
    const bool is_new = steps_.begin();
    if (replicas_) replicas_->begin();
    if (!is_new) return;
    if (orders_) orders_->restart();
    restart();
  } catch (...) {
    fail_step();
    throw;
  }
}

void FullySharded::Impl::restart_over(const Communicator& comm, const Communicator* replicas) {
  steps_ = StepCommunicator(comm);
  if (replicas_) replicas_.emplace(*replicas);
  if (orders_) orders_ = OrderCheck::of(comm);
  drop_gradients();
  restart();
}

void FullySharded::Impl::restart() {
  const Busy busy(busy_);
  const at::NoGradGuard no_grad;
  parallel_->restart_over(comm_);
  find_reduced();
  values_->restart(orders_);
  has_failed_ = false;
}

// Gradients that the module's zero_grad() dropped are dropped in the slices, too.
void FullySharded::Impl::drop_where_dropped(size_t slice) {
  if (placeholders_->was_dropped(slice)) trained_slices()[slice].tensor.mutable_grad() = at::Tensor();
}

std::shared_ptr<void> FullySharded::Impl::begin_update() {
  for (size_t i = 0; i < trained_slices().size(); ++i) {
    drop_where_dropped(i);
    placeholders_->remove(i);
  }
  return parallel_->update();
}

// The reducer is about to overwrite the memory of the last pass's gradients, but the user may accumulate into those, so they are copied.
void FullySharded::Impl::begin_pass() {
  values_->begin_pass();
  for (size_t unit = 0; unit < slices_.units(); ++unit) slices_.unit(unit).expect_in_place();
  slices_.expect_in_place();
  for (size_t i = 0; i < reduced_.size(); ++i) {
    const at::Tensor& slice = trained_slices()[i].tensor;
    TW_EXPECTS(!has_hook(slice), "the slice of ", trained_slices()[i].name,
               " has a hook, which no backward pass calls: register hooks on the module's parameters");
    drop_where_dropped(i);
    const at::Tensor gradient = gradient_of(slice);
    if (gradient.defined() && gradient.const_data_ptr() == reduced_[i].const_data_ptr()) set_gradient(slice, gradient.clone());
  }
}

void FullySharded::Impl::before_reduction() {
  const Busy busy(busy_);
  values_->before_reduction();
}

void FullySharded::Impl::end_pass() {
  const Busy busy(busy_);
  try {
    values_->end_pass();
  } catch (const std::exception& error) {  // all ranks of this group throw
    if (replicas_) replicas_->comm().revoke(error.what());
    throw;
  }
  const std::vector<uint8_t> used = reduce_over_replicas();
  for (size_t i = 0; i < reduced_.size(); ++i) {
    if (used[i] == 0) continue;
    const at::Tensor& slice = trained_slices()[i].tensor;
    const at::Tensor reduced = reduced_[i].to(slice.scalar_type());
    if (slice.grad().defined()) {
      slice.mutable_grad().add_(reduced);
    } else {
      set_gradient(slice, reduced);
    }
  }
}

// Also records whether all gradients are finite. @return by trained parameter: whether any rank had a gradient
std::vector<uint8_t> FullySharded::Impl::reduce_over_replicas() {
  finite_ = reducer().finite();
  std::vector<uint8_t> used;
  for (size_t i = 0; i < reduced_.size(); ++i) used.push_back(reducer().used(static_cast<int64_t>(i)) ? 1 : 0);
  if (!replicas_) return used;
  std::vector<at::Tensor> reduced;
  for (size_t bucket = 0; bucket < reducer().plan().buckets.size(); ++bucket) reduced.push_back(reducer().shard(static_cast<int64_t>(bucket)));
  for (size_t i = 0; i < reduced_.size(); ++i) {
    if (used[i] == 0) reduced_[i].zero_();
  }
  const Communicator& replicas = replicas_->comm();
  allreduce(replicas, reduced, ReduceOp::sum);
  for (const at::Tensor& each : reduced) {
    over_replicas_ += static_cast<int64_t>(each.nbytes());
    if (options_.reduction == Reduction::mean) each.div_(replicas.size());
  }
  used.push_back(finite_ ? 0 : 1);
  allreduce(replicas, at::from_blob(used.data(), {static_cast<int64_t>(used.size())}, at::TensorOptions().dtype(at::kByte)), ReduceOp::max);
  finite_ = used.back() == 0;
  used.pop_back();
  return used;
}

double FullySharded::Impl::clip(double max_norm) const {
  GradientShare share{.counted = {}, .sum_over = {&comm_}};
  for (const auto& [name, slice] : trained_slices()) {
    if (slice.grad().defined()) (is_counted_elsewhere(parts_, name) ? share.others : share.counted).push_back(slice.grad());
  }
  for (const auto& part : parts_) share.sum_over.push_back(&part->ranks);
  return tw::clip_gradient_norm(share, max_norm);
}

FullySharded::FullySharded(const Communicator& comm, const torch::nn::Module& module, const FullyShardedOptions& options,
                           const FullyShardedSetup& setup)
    : impl_(std::make_unique<Impl>(comm, module, tensors_of_replica(comm, module), options, setup)) {}

FullySharded::FullySharded(const Communicator& comm, const std::vector<NamedTensor>& parameters, const FullyShardedOptions& options,
                           const FullyShardedSetup& setup)
    : impl_(std::make_unique<Impl>(comm, parameters, without_aliases(parameters), options, setup)) {}

FullySharded::~FullySharded() = default;

std::vector<at::Tensor> FullySharded::slices() const {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& slice : named_slices()) tensors.push_back(slice.tensor);
  return tensors;
}
const std::vector<NamedTensor>& FullySharded::named_slices() const noexcept { return impl_->trained_slices(); }
double FullySharded::clip_gradient_norm(double max_norm) { return impl_->clip(max_norm); }
std::shared_ptr<void> FullySharded::begin_step() { return impl_->begin_step(); }
void FullySharded::fail_step() { impl_->fail_step(); }
void FullySharded::restart_over(const Communicator& comm, const Communicator* replicas) { impl_->restart_over(comm, replicas); }
void FullySharded::slices_changed() { impl_->slices_changed(); }
std::vector<OptimizedTensor> FullySharded::optimized() const { return impl_->slices().optimized(); }
std::vector<NamedShard> FullySharded::shards() const { return impl_->slices().shards(); }
bool FullySharded::gradients_finite() const noexcept { return impl_->finite(); }
std::shared_ptr<void> FullySharded::update() { return impl_->begin_update(); }
DataParallel& FullySharded::parallel() noexcept { return impl_->parallel(); }
const DataParallel& FullySharded::parallel() const noexcept { return impl_->parallel(); }
Seconds FullySharded::exposed_time() const noexcept { return impl_->parallel().exposed_time() + impl_->figures().exposed; }
int64_t FullySharded::payload_bytes() const noexcept { return impl_->payload_bytes(); }
int64_t FullySharded::buffer_bytes() const noexcept { return impl_->figures().buffer_bytes; }
int64_t FullySharded::gatherings() const noexcept { return impl_->figures().gatherings; }
int64_t FullySharded::blocking_gathers() const noexcept { return impl_->figures().late; }

}  // namespace tw

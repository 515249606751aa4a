// SPDX-License-Identifier: Apache-2.0
#include "after_accumulation.hpp"
#include "batch_norm_reductions.hpp"
#include "gradient_placeholders.hpp"
#include "module_tensors.hpp"
#include "open_passes.hpp"
#include "reduced_gradients.hpp"
#include "reducer_hook.hpp"
#include "replica_sample.hpp"
#include "wrapped_model_check.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/step_communicator.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/gradients/sparse_gradients.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

namespace tw {
namespace {

using AccumulatorPtr = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

}  // namespace

// A pass, in the order of events. The first accumulated gradient begins it and queues a callback for the end of this backward(). Each gradient is
// copied into its bucket and marked ready. The callback marks missing gradients, waits, and hands out the reduced gradients.
class DataParallel::Hooks {
 public:
  Hooks(const Communicator& comm, WrappedModelCheck wrapped, const DataParallelOptions& options)
      : steps_(comm),
        wrapped_(std::move(wrapped)),
        parameters_(trained(wrapped_.tensors())),
        sharded_(options.sharding != Sharding::none),
        number_(OpenPasses::next_number()),
        reducer_(steps_.comm(), specs_of(parameters_), where_they_lie(options)),
        reduced_(parameters_) {
    mpi::set_activity(steps_.comm(), OpenPasses::activity);
  }

  // Collective.
  DataParallelOptions where_they_lie(DataParallelOptions options) const {
    options.device = device_of(comm(), "DataParallel", parameters_);
    return options;
  }

  // Collective.
  static std::shared_ptr<Hooks> make(const Communicator& comm, WrappedModelCheck wrapped, const DataParallelOptions& options) {
    auto hooks = std::make_shared<Hooks>(comm, std::move(wrapped), options);
    synchronize(comm, hooks->wrapped_.tensors());
    expect_equal_replicas(options.parts, hooks->wrapped_.tensors());
    if (hooks->sharded_) {
      hooks->placeholders_ = std::make_shared<GradientPlaceholders>(
          hooks->parameters_, "make a ShardedOptimizer, call its step() and zero_grad(), and clip by ShardedOptimizerOptions::max_gradient_norm");
    }
    hooks->sample_ = std::make_unique<ReplicaSample>(hooks->parameters_);
    attach(hooks);
    hooks->steps_.barrier();
    return hooks;
  }
  static std::shared_ptr<Hooks> make(const Communicator& comm, WrappedModelCheck wrapped, const DataParallelOptions& options,
                                     const NoInitialBroadcast& no_broadcast) {
    auto hooks = std::make_shared<Hooks>(comm, std::move(wrapped), options);
    hooks->is_part_ = true;
    hooks->placeholders_ = no_broadcast.placeholders;
    hooks->on_begin_ = no_broadcast.begin;
    hooks->before_reduction_ = no_broadcast.before_reduction;
    hooks->on_end_ = no_broadcast.end;
    attach(hooks);
    return hooks;
  }

  // Accumulators own their hooks, which go with them. Hooks of tensors are removed here; LibTorch has already dropped the hooks of tensors that a
  // pass has written to.
  void detach() noexcept {
    for (size_t i = 0; i < attached_.size(); ++i) {
      try {
        if (attached_[i].guard) wrapped_.tensors()[i].tensor.remove_hook(*attached_[i].guard);
      } catch (const c10::Error&) {
      }
    }
    attached_.clear();
    placeholders_ = nullptr;
  }

  void set_samples(int64_t samples) {
    TW_EXPECTS(samples >= 0, "a rank cannot have ", samples, " samples");
    samples_ = samples;
  }
  void pause() noexcept { ++pauses_; }
  void resume() noexcept { --pauses_; }

  // A step, in the order of events: begin, the user's function, and fail if that throws, on every rank. The next step, or a pass outside of steps,
  // begins again with other communicators and buckets.
  std::shared_ptr<void> begin_step() {
    TW_EXPECTS(!is_part_, "this DataParallel belongs to a FullySharded: call train_step() of the FullySharded");
    TW_EXPECTS(!in_train_step_, "train_step() was called within a train_step()");
    begin_again();
    if (!buffers_.empty()) before_step_.emplace(buffers_);
    in_train_step_ = true;
    return {nullptr, [weak = self_](void*) {
              if (const auto alive = weak.lock()) alive->end_step();
            }};
  }
  void fail_step() {
    steps_.fail();
    if (before_step_) before_step_->restore();
    drop_gradients();
  }
  void end_step() noexcept {
    in_train_step_ = false;
    before_step_.reset();
  }
  // Gradients of the failed step may lie in memory that its messages still write.
  void drop_gradients() {
    for (size_t id = 0; id < parameters_.size(); ++id) {
      parameters_[id].tensor.mutable_grad() = at::Tensor();
      reduced_.forget(id);
    }
  }
  // Collective if a step has failed; else local.
  void begin_again() {
    const std::string why = !comm().revoked() ? ""
                            : sharded_        ? "a ShardedOptimizer uses the gradients' memory, which a failed step loses"
                                              : reducer_.why_no_restart();
    TW_EXPECTS(why.empty(), "a step of this DataParallel has failed, and it cannot run another one: make a new one. The reason is that ", why);
    try {
      if (steps_.begin()) restart();
    } catch (...) {
      steps_.fail();
      throw;
    }
  }
  // Collective. @param comm the same ranks, after the communicator that this object was made from was revoked
  void restart_over(const Communicator& comm) {
    steps_ = StepCommunicator(comm);
    restart();
  }
  void restart() {
    mpi::set_activity(comm(), OpenPasses::activity);
    reducer_.restart();
    if (sample_) sample_->begin_after(reducer_.steps());
  }

  void join_backward() {
    TW_EXPECTS(pauses_ == 0, "join_backward() was called under no_sync(), where the other ranks have no pass to join");
    if (has_failed()) {
      OpenPasses::end_failed();
      throw Error("this rank's last backward pass failed, so its gradients are lost: skip this update, as on the other ranks");
    }
    begin_pass();
    end_pass();
  }
  void only_in_updates(std::string otherwise) { otherwise_ = std::move(otherwise); }
  std::shared_ptr<void> begin_update() {
    for (size_t id = 0; id < parameters_.size(); ++id) {  // now, because stages sum tied gradients before this rank's passes add to them
      if (!sharded_ && !reduced_.is_foreign(id)) share_out(static_cast<int64_t>(id));
    }
    in_update_ = true;
    return {nullptr, [weak = self_](void*) {
              if (const auto alive = weak.lock()) alive->in_update_ = false;
            }};
  }
  void set_buffers(std::vector<at::Tensor> buffers) { buffers_ = std::move(buffers); }
  Reducer& reducer() noexcept { return reducer_; }
  const std::vector<NamedTensor>& parameters() const noexcept { return parameters_; }

 private:
  // Autograd may run a hook after this object is destroyed, so hooks hold it weakly.
  static void attach(const std::shared_ptr<Hooks>& hooks) {
    hooks->self_ = hooks;
    int64_t id = 0;
    for (const NamedTensor& each : hooks->wrapped_.tensors()) {
      const size_t index = hooks->attached_.size();
      hooks->attached_.push_back({.id = each.tensor.requires_grad() ? id++ : -1});
      hooks->attached_[index].guard = register_guard(each.tensor, hooks->forward_to(&Hooks::before_gradient, static_cast<int64_t>(index)));
      hooks->attach_accumulator(index);
    }
  }

  template <class Member>
  std::function<void()> forward_to(Member member, int64_t number) const {
    return [weak = self_, member, number] {
      if (const auto alive = weak.lock()) ((*alive).*member)(number);
    };
  }

  // A NoSync may outlive the DataParallel.
  static bool is_attached(const std::weak_ptr<Hooks>& hooks) {
    const auto alive = hooks.lock();
    return alive && !alive->attached_.empty();
  }

  // LibTorch makes a new accumulator for a parameter that was loaded, or converted and converted back.
  void attach_accumulator(size_t index) {
    Attached& attached = attached_[index];
    const at::Tensor& tensor = wrapped_.tensors()[index].tensor;
    if (attached.id < 0 || !tensor.requires_grad() || !tensor.is_leaf()) return;
    AccumulatorPtr accumulator = torch::autograd::impl::grad_accumulator(tensor);
    if (accumulator == attached.accumulator) return;
    auto after = forward_to(&Hooks::after_accumulation, attached.id);
    accumulator->add_pre_hook(std::make_unique<ReducerHook>(
        forward_to(&Hooks::before_accumulation, attached.id), [weak = self_] { return is_attached(weak); }, reducer_.options().reduction));
    accumulator->add_post_hook(std::make_unique<AfterAccumulation<decltype(after)>>(std::move(after)));
    attached.accumulator = std::move(accumulator);
  }

  // Calls `guard` when `tensor` gets a gradient. LibTorch registers such hooks only while the tensor requires a gradient.
  template <class Guard>
  static std::optional<unsigned> register_guard(const at::Tensor& tensor, Guard guard) {
    if (tensor.is_inference() || (!tensor.is_floating_point() && !tensor.is_complex())) return std::nullopt;
    const bool trained = tensor.requires_grad();
    tensor.requires_grad_();
    const unsigned position = tensor.register_hook([guard = std::move(guard)](const at::Tensor&) { guard(); });
    tensor.requires_grad_(trained);
    return position;
  }

  // The tensor's own hook. A tensor that is converted loses its accumulator but keeps this hook; a tensor that was frozen has no other hook.
  void before_gradient(int64_t index) {
    if (in_pass()) return;
    wrapped_.expect_unchanged(static_cast<size_t>(index));
    attach_accumulator(static_cast<size_t>(index));
  }

  void begin_pass() {
    if (!in_train_step_ && !is_part_ && comm().revoked()) begin_again();  // after a train_step()
    wrapped_.expect_unchanged();
    for (size_t i = 0; i < attached_.size(); ++i) {
      attach_accumulator(i);
      expect_one_reducer(i);
    }
    TW_EXPECTS(reducer_.options().reduction != Reduction::sample_weighted || samples_.has_value(),
               "Reduction::sample_weighted needs set_samples() before the backward pass");
    if (on_begin_) on_begin_();
    reducer_.begin(samples_.value_or(1));
    if (sample_) reducer_.set_step_fingerprint(sample_->take());
  }

  void expect_one_reducer(size_t index) const {
    const AccumulatorPtr& accumulator = attached_[index].accumulator;
    if (!accumulator || accumulator->pre_hooks().size() == 1) return;
    TW_EXPECTS(reductions_of(wrapped_.tensors()[index].tensor).size() == 1, "the gradient of ", wrapped_.tensors()[index].name,
               " is reduced twice, by two DataParallel or FullySharded: make one for all trained parameters, and make no other one over "
               "these parameters while it exists");
  }

  void before_accumulation(int64_t id) {
    TW_EXPECTS(in_update_ || otherwise_.empty(), otherwise_);
    if (has_failed()) OpenPasses::end_failed();
    if (placeholders_) placeholders_->remove(static_cast<size_t>(id));
    make_local(id);
  }

  void after_accumulation(int64_t id) {
    const at::NoGradGuard no_grad;
    if (pauses_ > 0) return gather(id);
    if (!in_pass()) {
      begin_pass();
      const auto pass = std::make_shared<Pass>();
      pass_ = pass;
      const auto end = [weak = self_] {
        if (const auto alive = weak.lock()) alive->end_pass();
      };
      const auto fail = [weak = self_] {
        if (const auto alive = weak.lock(); alive && alive->has_failed()) alive->reducer_.end_failed_step();
      };
      OpenPasses::open(number_, pass, end, fail);
    }
    TW_EXPECTS(!reducer_.marked(id), "the gradient of ", parameters_[static_cast<size_t>(id)].name,
               " was marked ready twice in one backward pass. If a backward pass inside the backward pass recomputes a part of the model, use "
               "tw::recomputed(), or make the pass under no_sync() and call join_backward() afterwards");
    reducer_.mark_ready(id, gradient_of(parameter(id)));
    if (sharded_) {
      parameter(id).mutable_grad() = at::Tensor();
    } else if (!reducer_.is_sparse(id)) {
      set_gradient(parameter(id), reducer_.gradient(id));
    }
  }

  // In local passes, lets later passes add to the bucket itself. The reduction then has nothing to copy.
  void gather(int64_t id) {
    const at::Tensor gradient = gradient_of(parameter(id));
    if (sharded_ || reducer_.is_sparse(id) || !gradient.defined() || gradient.is_sparse()) return;
    const at::Tensor& place = reducer_.gradient(id);
    const bool fits = gradient.sizes() == place.sizes() && gradient.scalar_type() == place.scalar_type();  // otherwise the next reduction reports it
    if (!fits || gradient.is_same(place)) return;
    place.copy_(gradient);
    set_gradient(parameter(id), place);
  }

  void end_pass() {
    const at::NoGradGuard no_grad;
    pass_.reset();
    for (int64_t id = 0; id < reducer_.size(); ++id) {
      if (reducer_.marked(id)) continue;
      if (placeholders_) placeholders_->remove(static_cast<size_t>(id));
      if (parameter(id).grad().defined()) {  // left by an earlier pass; other ranks may add to it
        make_local(id);
        reducer_.mark_ready(id, gradient_of(parameter(id)));
        if (sharded_) parameter(id).mutable_grad() = at::Tensor();
      } else {
        reducer_.mark_unused(id);
      }
    }
    if (before_reduction_) before_reduction_();
    reducer_.wait();
    if (sample_ && !reducer_.fingerprints_agree()) sample_->compare(comm());
    for (int64_t id = 0; id < reducer_.size(); ++id) {
      if (!reducer_.used(id)) continue;
      if (sharded_) {
        placeholders_->put(static_cast<size_t>(id));
        continue;
      }
      set_gradient(parameter(id), reducer_.gradient(id));
      reduced_.note(static_cast<size_t>(id), ReducedGradients::ReducedBy::this_one);
    }
    if (on_end_) on_end_();
  }

  // A gradient reduced by an earlier pass is equal on all ranks. Averaging it again changes nothing; a sum would count it once per rank.
  void make_local(int64_t id) {
    const std::optional<ReducedGradients::ReducedBy> by = reduced_.take_reduced_by(static_cast<size_t>(id));
    if (!by) return;
    TW_EXPECTS(by == ReducedGradients::ReducedBy::this_one || reducer_.options().reduction != Reduction::sum || comm().size() == 1, "'",
               parameters_[static_cast<size_t>(id)].name,
               "' still has the gradient that it had when DataParallel was made, which may already be reduced: call zero_grad() "
               "before the first backward pass");
    share_out(id);
  }

  void share_out(int64_t id) {
    reduced_.forget(static_cast<size_t>(id));
    const at::NoGradGuard no_grad;
    const at::Tensor& gradient = parameter(id).mutable_grad();
    if (gradient.defined() && reducer_.options().reduction == Reduction::sum && comm().size() > 1) gradient.div_(comm().size());
  }

  at::Tensor& parameter(int64_t id) { return parameters_[static_cast<size_t>(id)].tensor; }

  const Communicator& comm() const noexcept { return steps_.comm(); }

  StepCommunicator steps_;
  WrappedModelCheck wrapped_;
  std::vector<NamedTensor> parameters_;  // those that require a gradient
  bool sharded_;
  int64_t number_;
  Reducer reducer_;
  std::string otherwise_;  // see only_in_updates(); empty: passes may run at any time
  bool in_update_ = false;
  std::optional<int64_t> samples_;
  struct Pass {};
  bool in_pass() const noexcept { return !pass_.expired(); }
  // The last backward pass threw, and the other ranks still wait for this rank.
  bool has_failed() const noexcept { return reducer_.in_step() && !in_pass() && !comm().revoked(); }
  std::weak_ptr<Pass> pass_;  // owned by the callback at the pass's end, so destroyed with a backward pass that throws
  int pauses_ = 0;
  bool is_part_ = false;  // of a FullySharded, which makes the steps
  bool in_train_step_ = false;
  std::vector<at::Tensor> buffers_;                     // of the module
  std::optional<TensorSnapshot> before_step_;           // their values
  std::shared_ptr<GradientPlaceholders> placeholders_;  // with sharded gradients only
  std::unique_ptr<ReplicaSample> sample_;               // null if parameters have no memory
  std::function<void()> before_reduction_;
  std::function<void()> on_begin_;
  std::function<void()> on_end_;
  ReducedGradients reduced_;
  struct Attached {
    int64_t id = -1;                     // of the parameter; -1: it was frozen
    std::optional<unsigned> guard = {};  // hook on the tensor, which may get a gradient
    AccumulatorPtr accumulator = {};     // keeps it and its hooks alive, since the parameter does not; null if frozen
  };
  std::vector<Attached> attached_;  // by wrapped tensor
  std::weak_ptr<Hooks> self_;
};

namespace {

// Adds what the module's layers require.
DataParallelOptions fitting(const Communicator& comm, const torch::nn::Module& module, DataParallelOptions options) {
  ModelTensors tensors = model_tensors(module);
  if (comm.size() > 1) tensors.expect_replicable();
  expect_batch_norms_for(module, options.reduction);
  if (options.parts.empty()) options.parts = model_parts(module);
  for (std::string& name : tensors.sparse) options.sparse.push_back(std::move(name));
  return options;
}

}  // namespace

DataParallel::DataParallel(const Communicator& comm, const torch::nn::Module& module, const DataParallelOptions& options)
    : hooks_(Hooks::make(comm, WrappedModelCheck("DataParallel", comm, module), fitting(comm, module, options))) {
  hooks_->set_buffers(module.buffers());
}

DataParallel::DataParallel(const Communicator& comm, const std::vector<NamedTensor>& parameters, const DataParallelOptions& options)
    : hooks_(Hooks::make(comm, WrappedModelCheck("DataParallel", parameters), options)) {}

DataParallel::DataParallel(const NoInitialBroadcast& no_broadcast, const Communicator& comm, const torch::nn::Module& module,
                           const DataParallelOptions& options)
    : hooks_(Hooks::make(comm, WrappedModelCheck("FullySharded", module), fitting(comm, module, options), no_broadcast)) {}

DataParallel::DataParallel(const NoInitialBroadcast& no_broadcast, const Communicator& comm, const std::vector<NamedTensor>& parameters,
                           const DataParallelOptions& options)
    : hooks_(Hooks::make(comm, WrappedModelCheck("FullySharded", parameters), options, no_broadcast)) {}

DataParallel::~DataParallel() { hooks_->detach(); }

DataParallel::NoSync DataParallel::no_sync() { return NoSync(hooks_); }
DataParallel::NoSync::NoSync(std::shared_ptr<Hooks> hooks) : hooks_(std::move(hooks)) { hooks_->pause(); }
DataParallel::NoSync::~NoSync() {
  if (hooks_) hooks_->resume();
}

std::shared_ptr<void> DataParallel::begin_step() { return hooks_->begin_step(); }
void DataParallel::fail_step() { hooks_->fail_step(); }
void DataParallel::restart_over(const Communicator& comm) { hooks_->restart_over(comm); }
void DataParallel::drop_gradients() { hooks_->drop_gradients(); }
void DataParallel::join_backward() { hooks_->join_backward(); }
void DataParallel::set_samples(int64_t samples) { hooks_->set_samples(samples); }
bool DataParallel::gradients_finite() const noexcept { return hooks_->reducer().finite(); }
std::shared_ptr<void> DataParallel::update() { return hooks_->begin_update(); }
void DataParallel::only_in_updates(std::string otherwise) { hooks_->only_in_updates(std::move(otherwise)); }
Seconds DataParallel::exposed_time() const noexcept { return hooks_->reducer().exposed_time(); }
const BucketPlan& DataParallel::plan() const noexcept { return hooks_->reducer().plan(); }
Reducer& DataParallel::reducer() noexcept { return hooks_->reducer(); }
const Reducer& DataParallel::reducer() const noexcept { return hooks_->reducer(); }
const std::vector<NamedTensor>& DataParallel::parameters() const noexcept { return hooks_->parameters(); }

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"
#include "parameter_unit.hpp"
#include "unit_order.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/initial_values.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/tensor/flat_buffer.hpp>

namespace tw {
namespace {

/// By parameter: that of the first of `units` that it is of, or the last number.
std::vector<int64_t> groups_of(const std::vector<NamedTensor>& parameters, const std::vector<std::string>& units) {
  std::vector<int64_t> groups;
  if (units.empty()) return groups;
  std::vector<uint8_t> found(units.size());
  for (const NamedTensor& parameter : parameters) {
    const auto unit = std::find_if(units.begin(), units.end(), [&](const std::string& name) { return parameter.name.starts_with(name + '.'); });
    groups.push_back(unit - units.begin());
    if (unit != units.end()) found[static_cast<size_t>(unit - units.begin())] = 1;
  }
  for (size_t i = 0; i < units.size(); ++i) TW_EXPECTS(found[i] != 0, "there is no submodule ", units[i], " with a parameter that is trained");
  return groups;
}

/// Elements of one parameter that lie in a rank's share of its unit.
struct Piece {
  size_t unit = 0;
  size_t parameter = 0;  // of the unit
  int64_t begin = 0;     // in the flattened parameter
  int64_t count = 0;     // may be 0
  int64_t offset = 0;    // in the share
};

Piece piece_of(size_t unit, size_t parameter, int64_t offset, int64_t numel, int64_t share_begin, int64_t share) {
  const int64_t begin = std::clamp(share_begin - offset, int64_t{0}, numel);
  const int64_t end = std::clamp(share_begin + share - offset, int64_t{0}, numel);
  return {unit, parameter, begin, std::max<int64_t>(end - begin, 0), std::clamp(offset + begin - share_begin, int64_t{0}, share)};
}

/// Sets a flag while it lives.
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

void visit(FullyShardedOptions& options, OptionVisitor& visitor) {
  visitor.field("unit_bytes", options.unit_bytes, {.least = 1},
                {.meaning = "of parameters that are gathered and released together", .unit = "bytes"});
  visitor.field("units", options.units, {.meaning = "names of submodules whose parameters are units of their own"});
  visitor.field("gather_ahead", options.gather_ahead, count_from(0), {.meaning = "units that are gathered before they are taken"});
  visitor.field("one_copy_per_node", options.one_copy_per_node, {.meaning = "one copy of the parameters for all ranks of a node"});
  const std::vector<std::pair<std::string, c10::ScalarType>> dtypes{{"bfloat16", at::kBFloat16}, {"float16", at::kHalf}, {"float32", at::kFloat}};
  visitor.field("compute_dtype", options.compute_dtype, dtypes, About{.meaning = "of gathered parameters"});
  visitor.field("check_finite", options.check_finite, {.meaning = "look whether reduced gradients are finite"});
}
void FullyShardedOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!one_copy_per_node || !compute_dtype, "one_copy_per_node keeps parameters in their own dtype: compute_dtype must be unset");
}

class FullySharded::Impl final : public MemoryOwner {
 public:
  // Collective. @param model of DataParallel: a module or its tensors. @param all its parameters and buffers
  template <class Model>
  Impl(const Communicator& of, const Model& model, std::vector<NamedTensor> all, const FullyShardedOptions& chosen, const FullyShardedSetup& more)
      : comm_(of.dup()), options_(checked(comm_, chosen)), order_(0, 0) {
    const at::NoGradGuard no_grad;
    if (more.replicas != nullptr) replicas_.emplace(more.replicas->dup());
    TW_EXPECTS(!replicas_ || options_.reduction != Reduction::sample_weighted, "replicas know Reduction::sum and mean");
    const std::vector<NamedTensor> parameters = trained(all);
    const std::vector<int64_t> groups = groups_of(parameters, options_.units);
    const DataParallelOptions reducer{.reduction = options_.reduction,
                                      .buckets = {options_.unit_bytes, options_.unit_bytes},
                                      .check_finite = options_.check_finite,
                                      .sharding = Sharding::slices,
                                      .release = true,
                                      .groups = groups};
    TW_EXPECTS(!parameters.empty(), "there is no parameter that requires a gradient");
    make_equal(all, more.initial);
    const Arrangement arrangement{.slices = comm_.size(), .groups = groups};
    make_units(parameters, plan_buckets(computed(parameters), reducer.buckets, arrangement), more.initial);
    // Buffers stay whole. Of a list nobody says what is one.
    std::erase_if(all, [](const NamedTensor& each) { return each.tensor.requires_grad() || !each.tensor.is_floating_point(); });
    if constexpr (std::is_same_v<Model, torch::nn::Module>) {
      const std::vector<NamedTensor> of_module = tensors_of(model.named_parameters());
      const auto buffers = std::stable_partition(all.begin(), all.end(), [&](const NamedTensor& each) {
        return std::any_of(of_module.begin(), of_module.end(), [&](const NamedTensor& other) { return other.tensor.is_same(each.tensor); });
      });
      for (auto buffer = buffers; buffer != all.end(); ++buffer) {
        if (buffer->tensor.is_meta()) make_whole(*buffer, *more.initial);
      }
      all.erase(buffers, all.end());
    }
    if (!all.empty()) make_units(all, plan_buckets(computed(all), reducer.buckets, {.slices = comm_.size()}), more.initial);
    parallel_.reset(new DataParallel(DataParallel::AsTheyAre{}, comm_, model, reducer));  // whose constructor is private
    make_reduced();
    order_ = UnitOrder(units_.size(), static_cast<size_t>(options_.gather_ahead));
    make_pool();
    for (size_t unit = 0; options_.one_copy_per_node && unit < units_.size(); ++unit) watch_slices(unit, true);
    parallel_->observe_passes([this] { begin_pass(); }, [this] { end_pass(); });
    busy_ = false;
  }

  ~Impl() override {
    for (const auto& share : shares_) share.watched->owner = nullptr;
  }

  void before_operator(std::span<const Taken> taken) override;

  std::vector<NamedTensor> slices;  // of the trained parameters, in their order

  DataParallel& parallel() noexcept { return *parallel_; }
  bool finite() const noexcept { return finite_; }
  std::vector<OptimizedTensor> optimized() const;
  std::vector<NamedShard> shards() const;
  double clip(double max_norm) const;
  void slices_changed();

  Seconds exposed{0};
  int64_t payload_bytes = 0;
  int64_t gatherings = 0;
  int64_t late = 0;

 private:
  /// What this rank keeps of a unit.
  struct Share {
    at::Tensor values;  // [numel / P], for our own use
    std::shared_ptr<WatchedMemory> watched;
    at::Tensor slices;                      // the same memory for whom it does not belong to
    std::vector<at::Tensor> of_parameters;  // views of it, by trained parameter
    bool written = false;                   // since its unit was gathered
    at::Tensor pooled;                      // where the whole unit lies; undefined: nowhere, or in memory of its own
    at::Tensor arriving;                    // the same, while it is gathered
    Work gathering;
  };

  static FullyShardedOptions checked(const Communicator& comm, FullyShardedOptions options) {
    expect_same_on_all_ranks(comm, "the options of FullySharded", value_lines(options));
    options.validate();
    TW_EXPECTS(!options.one_copy_per_node || find_topology(comm).nodes == 1, "one_copy_per_node needs all ranks on one node");
    return options;
  }

  std::vector<TensorSpec> computed(const std::vector<NamedTensor>& parameters) const;
  void make_equal(const std::vector<NamedTensor>& tensors, const InitialValues* initial) const;
  void make_units(const std::vector<NamedTensor>& parameters, const BucketPlan& plan, const InitialValues* initial);
  void fill(const at::Tensor& place, const NamedTensor& parameter, const Piece& piece, const InitialValues* initial) const;
  static void make_whole(const NamedTensor& buffer, const InitialValues& initial);
  void make_reduced();
  void make_pool();
  void begin_gathering(size_t unit);
  void end_gathering(size_t unit);
  void release(size_t unit);
  void expect_unchanged(size_t unit) const;
  void use(std::span<const size_t> units);
  void wrote(size_t unit);
  void watch_slices(size_t unit, bool watched) const {
    for (const at::Tensor& slice : shares_[unit].of_parameters) watch(slice, watched);
  }
  void begin_pass();
  void end_pass();
  void expect_one_way();
  std::vector<uint8_t> reduce_over_replicas();
  at::Tensor memory_for(size_t unit);
  at::Tensor slice_of(const Piece& piece) const { return FlatBuffer(shares_[piece.unit].slices).view(piece.offset, {piece.count}); }
  NamedTensor parameter_of(const Piece& piece) const { return units_[piece.unit]->parameters()[piece.parameter]; }

  const Communicator comm_;
  const FullyShardedOptions options_;
  std::optional<Communicator> replicas_;
  std::unique_ptr<DataParallel> parallel_;
  std::vector<std::unique_ptr<ParameterUnit>> units_;  // the trained ones have their buckets' numbers
  std::vector<Share> shares_;                          // by unit
  std::vector<Piece> pieces_;                          // of all parameters; those of slices come first
  std::vector<at::Tensor> reduced_;                    // by slice, where the reducer has its gradient
  UnitOrder order_;
  std::vector<at::Tensor> pool_;  // free memory for units, each as large as the largest one
  std::vector<int64_t> way_;      // units gathered in this pass, in order
  bool finite_ = true;            // gradients of the last pass
  bool busy_ = true;              // operators that are called from here are not looked at
  // One copy a node: all ranks meet before slices are written and before they are read.
  enum class Copy { read, written } copy_ = Copy::read;
};

// As they are gathered.
std::vector<TensorSpec> FullySharded::Impl::computed(const std::vector<NamedTensor>& parameters) const {
  std::vector<TensorSpec> specs = specs_of(parameters);
  for (TensorSpec& spec : specs) spec.dtype = options_.compute_dtype.value_or(spec.dtype);
  return specs;
}

// Those that have memory; the others are made equal, if they can be.
void FullySharded::Impl::make_equal(const std::vector<NamedTensor>& tensors, const InitialValues* initial) const {
  std::vector<NamedTensor> with_memory;
  for (const NamedTensor& each : tensors) {
    if (!each.tensor.is_meta()) {
      with_memory.push_back(each);
      continue;
    }
    TW_EXPECTS(initial != nullptr, each.name, " has no memory: give FullyShardedSetup::initial");
    initial->fill(at::empty({0}), each.tensor, 0, each.name);  // where it throws, it does on all ranks
  }
  if (replicas_) synchronize(*replicas_, with_memory);
  synchronize(comm_, with_memory);
}

// This rank's elements of it, at their place.
void FullySharded::Impl::fill(const at::Tensor& place, const NamedTensor& parameter, const Piece& piece, const InitialValues* initial) const {
  if (parameter.tensor.is_meta()) {
    initial->fill(place, parameter.tensor, piece.begin, parameter.name);
  } else {
    place.copy_(parameter.tensor.flatten().narrow(0, piece.begin, piece.count));
  }
}

void FullySharded::Impl::make_units(const std::vector<NamedTensor>& parameters, const BucketPlan& plan, const InitialValues* initial) {
  std::vector<Piece> pieces(parameters.size());
  for (const Bucket& bucket : plan.buckets) {
    const int64_t share = bucket.numel / comm_.size();
    const int64_t begin = share * comm_.rank();
    const size_t index = units_.size();
    const at::Tensor& first = parameters[static_cast<size_t>(bucket.gradients.front())].tensor;
    const at::TensorOptions kept_as = first.options().device(first.is_meta() ? at::kCPU : first.device()).requires_grad(false);
    Share& kept = shares_.emplace_back();
    at::Tensor whole;
    if (options_.one_copy_per_node) whole = node_tensor(comm_, {bucket.numel}, bucket.dtype);
    kept.values = whole.defined() ? whole.narrow(0, begin, share) : FlatBuffer(share, kept_as).storage();
    std::vector<NamedTensor> of_unit;
    std::vector<int64_t> offsets;
    for (const int64_t id : bucket.gradients) {
      const NamedTensor& parameter = parameters[static_cast<size_t>(id)];
      const int64_t offset = plan.placements[static_cast<size_t>(id)].offset;
      const Piece& piece = pieces[static_cast<size_t>(id)] = piece_of(index, of_unit.size(), offset, parameter.tensor.numel(), begin, share);
      if (piece.count > 0) fill(kept.values.narrow(0, piece.offset, piece.count), parameter, piece, initial);
      of_unit.push_back(parameter);
      offsets.push_back(offset);
    }
    kept.watched = std::make_shared<WatchedMemory>(this, index);
    const auto keeps = std::make_shared<at::Tensor>(kept.values);
    c10::Storage storage(c10::Storage::use_byte_size_t(), kept.values.nbytes(),
                         watched_pointer(kept.values.data_ptr(), kept.watched, keeps, kept_as.device()), nullptr, false);
    kept.slices = at::empty({0}, kept_as).set_(storage, 0, {share}, {1});
    units_.push_back(std::make_unique<ParameterUnit>(this, index, of_unit, offsets, bucket.numel, kept_as.dtype(bucket.dtype)));
    if (!whole.defined()) continue;
    barrier(comm_);
    units_.back()->fill(whole);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    pieces_.push_back(pieces[i]);
    if (!parameters[i].tensor.requires_grad()) continue;
    slices.push_back({parameters[i].name, slice_of(pieces[i])});
    shares_[pieces[i].unit].of_parameters.push_back(slices.back().tensor);
  }
}

// On each rank.
void FullySharded::Impl::make_whole(const NamedTensor& buffer, const InitialValues& initial) {
  const at::Tensor values = at::empty({buffer.tensor.numel()}, buffer.tensor.options().device(at::kCPU));
  initial.fill(values, buffer.tensor, 0, buffer.name);
  place_in_storage(buffer.tensor, values.storage(), 0, values.scalar_type());
}

void FullySharded::Impl::make_reduced() {
  for (size_t i = 0; i < slices.size(); ++i) {
    const Piece& piece = pieces_[i];
    TW_ASSERT(parallel_->plan().placements[i].bucket == static_cast<int64_t>(piece.unit));
    reduced_.push_back(FlatBuffer(parallel_->reducer().shard(static_cast<int64_t>(piece.unit))).view(piece.offset, {piece.count}));
  }
}

void FullySharded::Impl::make_pool() {
  if (options_.one_copy_per_node) return;
  int64_t most = 0;
  for (const auto& unit : units_) most = std::max(most, unit->bytes());
  const c10::Device device = units_.front()->options().device();
  const size_t at_once = std::min(units_.size(), static_cast<size_t>(1 + std::max(options_.gather_ahead, 1)));
  for (size_t i = 0; i < at_once; ++i) pool_.push_back(shared_tensor(comm_, {most}, at::device(device).dtype(at::kByte)));
}

at::Tensor FullySharded::Impl::memory_for(size_t unit) {
  const ParameterUnit& of = *units_[unit];
  if (pool_.empty()) return at::empty({of.numel()}, of.options());  // an operator takes more units at once than stay otherwise
  const at::Tensor& memory = shares_[unit].pooled = pool_.back();
  pool_.pop_back();
  return memory.narrow(0, 0, of.bytes()).view(of.options().dtype().toScalarType());
}

void FullySharded::Impl::before_operator(std::span<const Taken> taken) {
  if (busy_) return;
  const Busy busy(busy_);
  const at::NoGradGuard no_grad;
  std::vector<size_t> units;
  for (const Taken& each : taken) {
    if (each.memory->owner != this) continue;
    const size_t index = each.memory->index;
    if (each.memory != shares_[index].watched.get()) {
      if (std::find(units.begin(), units.end(), index) == units.end()) units.push_back(index);
    } else if (each.written) {
      wrote(index);
    }
  }
  if (!units.empty()) use(units);
}

// Slices are watched while their unit is gathered, until the first one is written.
void FullySharded::Impl::wrote(size_t unit) {
  shares_[unit].written = true;
  watch_slices(unit, false);
  if (!options_.one_copy_per_node || copy_ == Copy::written) return;
  barrier(comm_);
  copy_ = Copy::written;
}

void FullySharded::Impl::use(std::span<const size_t> units) {
  if (options_.one_copy_per_node) {
    if (copy_ == Copy::read) return;
    barrier(comm_);
    copy_ = Copy::read;
    for (size_t unit = 0; unit < units_.size(); ++unit) watch_slices(unit, true);
    return;
  }
  for (const size_t unit : units) {
    if (order_.has(unit) && shares_[unit].written) release(unit);
  }
  const UnitOrder::Moves moves = order_.use(units);
  for (const size_t unit : moves.release) release(unit);
  for (const size_t unit : moves.gather) begin_gathering(unit);
  late += static_cast<int64_t>(moves.gather.size());
  for (const size_t unit : moves.ahead) begin_gathering(unit);
  for (const size_t unit : units) end_gathering(unit);
}

void FullySharded::Impl::begin_gathering(size_t unit) {
  Share& share = shares_[unit];
  share.arriving = memory_for(unit);
  share.written = false;
  watch_slices(unit, true);
  at::Tensor mine = share.values;
  if (mine.scalar_type() != share.arriving.scalar_type()) {
    mine = share.arriving.narrow(0, comm_.rank() * mine.numel(), mine.numel());
    mine.copy_(share.values);
  }
  share.gathering = iallgather(comm_, mine, share.arriving);
  payload_bytes += static_cast<int64_t>(mine.nbytes());
  ++gatherings;
  way_.push_back(static_cast<int64_t>(unit));
}

void FullySharded::Impl::end_gathering(size_t unit) {
  Share& share = shares_[unit];
  if (!share.arriving.defined()) return;
  const Stopwatch watch;
  share.gathering.wait();
  exposed += watch.elapsed();
  units_[unit]->fill(std::exchange(share.arriving, {}));
}

void FullySharded::Impl::release(size_t unit) {
  end_gathering(unit);
  order_.forget(unit);
  watch_slices(unit, false);
  expect_unchanged(unit);
  units_[unit]->release();
  if (shares_[unit].pooled.defined()) pool_.push_back(std::exchange(shares_[unit].pooled, {}));
}

void FullySharded::Impl::expect_unchanged(size_t unit) const {
  const std::string changed = units_[unit]->changed();
  TW_EXPECTS(changed.empty(), "parameter ", changed, " was changed in place, which its slices do not know of: change these");
}

// The reducer is about to write where gradients of the pass before lie, to which the user may add those of this one.
void FullySharded::Impl::begin_pass() {
  for (size_t unit = 0; options_.one_copy_per_node && unit < units_.size(); ++unit) expect_unchanged(unit);
  for (size_t i = 0; i < slices.size(); ++i) {
    at::Tensor& gradient = slices[i].tensor.mutable_grad();
    if (gradient.is_same(reduced_[i])) gradient = gradient.clone();
  }
}

void FullySharded::Impl::end_pass() {
  const Busy busy(busy_);
  expect_one_way();
  const std::vector<uint8_t> used = reduce_over_replicas();
  for (size_t i = 0; i < slices.size(); ++i) {
    if (used[i] == 0) continue;
    at::Tensor& gradient = slices[i].tensor.mutable_grad();
    const at::Tensor reduced = reduced_[i].to(slices[i].tensor.scalar_type());
    if (gradient.defined()) {
      gradient.add_(reduced);
    } else {
      gradient = reduced;
    }
  }
  for (const size_t unit : order_.end_pass()) release(unit);
}

// Units of one size that met others would be wrong without a word.
void FullySharded::Impl::expect_one_way() {
  const std::vector<int64_t> way = std::exchange(way_, {});
  if (comm_.size() == 1 || options_.one_copy_per_node) return;
  uint64_t hash = way.size();
  for (const int64_t unit : way) hash = derived_seed(hash, static_cast<uint64_t>(unit));
  const auto half = static_cast<int64_t>(hash >> 1U);
  const at::Tensor extremes = at::tensor({half, -half}, at::kLong);
  allreduce(comm_, extremes, ReduceOp::max);
  if (extremes[0].item<int64_t>() == half && extremes[1].item<int64_t>() == -half) return;
  std::string text;
  for (const int64_t unit : way) text += concat(text.empty() ? "" : ", ", units_[static_cast<size_t>(unit)]->parameters().front().name);
  std::string all;
  const std::vector<std::string> ways = allgather_strings(comm_, text);
  for (size_t rank = 0; rank < ways.size(); ++rank) all += concat("\n  rank ", rank, ": ", ways[rank]);
  TW_EXPECTS(false, "the ranks' passes took parameters in different orders, so that they got each other's; units, by their first parameter:", all);
}

// Also looks which parameters had a gradient anywhere, and whether all are finite.
std::vector<uint8_t> FullySharded::Impl::reduce_over_replicas() {
  Reducer& reducer = parallel_->reducer();
  finite_ = reducer.finite();
  std::vector<uint8_t> used;
  for (size_t i = 0; i < slices.size(); ++i) used.push_back(reducer.used(static_cast<int64_t>(i)) ? 1 : 0);
  if (!replicas_) return used;
  std::vector<at::Tensor> reduced;
  for (size_t bucket = 0; bucket < reducer.plan().buckets.size(); ++bucket) reduced.push_back(reducer.shard(static_cast<int64_t>(bucket)));
  for (size_t i = 0; i < slices.size(); ++i) {
    if (used[i] == 0) reduced_[i].zero_();
  }
  allreduce(*replicas_, reduced, ReduceOp::sum);
  for (const at::Tensor& each : reduced) {
    payload_bytes += static_cast<int64_t>(each.nbytes());
    if (options_.reduction == Reduction::mean) each.div_(replicas_->size());
  }
  used.push_back(finite_ ? 0 : 1);
  allreduce(*replicas_, at::from_blob(used.data(), {static_cast<int64_t>(used.size())}, at::TensorOptions().dtype(at::kByte)), ReduceOp::max);
  finite_ = used.back() == 0;
  used.pop_back();
  return used;
}

void FullySharded::Impl::slices_changed() {
  for (Share& share : shares_) share.written = true;
  if (options_.one_copy_per_node) copy_ = Copy::written;
}

double FullySharded::Impl::clip(double max_norm) const {
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& slice : slices) {
    if (slice.tensor.grad().defined()) gradients.push_back(slice.tensor.grad());
  }
  return tw::clip_gradient_norm(comm_, gradients, max_norm);
}

std::vector<OptimizedTensor> FullySharded::Impl::optimized() const {
  std::vector<OptimizedTensor> all;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Piece& piece = pieces_[i];
    OptimizedTensor& optimized = all.emplace_back(OptimizedTensor{slices[i].tensor, {}});
    if (piece.count == 0) continue;
    const auto& [name, parameter] = parameter_of(piece);
    optimized.slices = slices_of_run(name, parameter.sizes().vec(), slices[i].tensor, piece.begin, ShardKind::parameter);
  }
  return all;
}

std::vector<NamedShard> FullySharded::Impl::shards() const {
  std::vector<NamedShard> all;
  for (const Piece& piece : pieces_) {
    if (piece.count == 0) continue;
    const auto& [name, parameter] = parameter_of(piece);
    for (NamedShard& shard : slices_of_run(name, parameter.sizes().vec(), slice_of(piece), piece.begin, ShardKind::parameter)) {
      all.push_back(std::move(shard));
    }
  }
  return all;
}

FullySharded::FullySharded(const Communicator& comm, const torch::nn::Module& module, const FullyShardedOptions& options,
                           const FullyShardedSetup& more)
    : impl_(std::make_unique<Impl>(comm, module, tensors_of(module), options, more)) {}

FullySharded::FullySharded(const Communicator& comm, const std::vector<NamedTensor>& parameters, const FullyShardedOptions& options,
                           const FullyShardedSetup& more)
    : impl_(std::make_unique<Impl>(comm, parameters, without_aliases(parameters), options, more)) {}

FullySharded::~FullySharded() = default;

std::vector<at::Tensor> FullySharded::slices() const {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& slice : impl_->slices) tensors.push_back(slice.tensor);
  return tensors;
}
const std::vector<NamedTensor>& FullySharded::named_slices() const noexcept { return impl_->slices; }
double FullySharded::clip_gradient_norm(double max_norm) { return impl_->clip(max_norm); }
void FullySharded::slices_changed() { impl_->slices_changed(); }
std::vector<OptimizedTensor> FullySharded::optimized() const { return impl_->optimized(); }
std::vector<NamedShard> FullySharded::shards() const { return impl_->shards(); }
bool FullySharded::gradients_finite() const noexcept { return impl_->finite(); }
DataParallel& FullySharded::parallel() noexcept { return impl_->parallel(); }
Seconds FullySharded::exposed_time() const noexcept { return impl_->parallel().exposed_time() + impl_->exposed; }
int64_t FullySharded::payload_bytes() const noexcept { return impl_->parallel().reducer().payload_bytes() + impl_->payload_bytes; }
int64_t FullySharded::gatherings() const noexcept { return impl_->gatherings; }
int64_t FullySharded::late_gatherings() const noexcept { return impl_->late; }

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/topology.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "scaling.hpp"
#include "sparse.hpp"

namespace tw {
namespace {

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return "sum";
    case Reduction::mean: return "mean";
    case Reduction::sample_weighted: return "sample_weighted";
  }
  return "?";
}

const char* name_of(Sharding sharding) {
  switch (sharding) {
    case Sharding::none: return "none";
    case Sharding::slices: return "slices";
    case Sharding::tensors: return "tensors";
  }
  return "?";
}

void expect_agreement(const Communicator& comm, const std::vector<TensorSpec>& specs, const ReducerOptions& options, bool overlap) {
  std::vector<std::string> lines{concat("reduction ", name_of(options.reduction)),
                                 concat("buckets of ", options.buckets.first_bucket_bytes, " and ", options.buckets.bucket_bytes, " bytes, ",
                                        options.shared_memory ? "shared" : "not shared", ", overlap ", overlap),
                                 concat("sharding ", name_of(options.sharding), options.release ? ", released" : ""),
                                 concat("check_finite ", options.check_finite),
                                 concat("compression ", options.compressor ? options.compressor->describe() : "none")};
  for (const int64_t id : options.arrival_order) lines.push_back(concat("arrival_order ", id));
  for (const std::string& name : options.sparse) lines.push_back("sparse " + name);
  for (std::string& line : lines_of(specs)) lines.push_back(std::move(line));
  expect_same_on_all_ranks(comm, "the gradients to be reduced", lines);
}

// By gradient, whether it is sparse.
std::vector<uint8_t> find_sparse(const std::vector<TensorSpec>& specs, const std::vector<std::string>& names) {
  std::vector<uint8_t> sparse(specs.size());
  for (const std::string& name : names) {
    const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
    TW_EXPECTS(found != specs.end() && !found->shape.empty(), "there is no gradient ", name, " that could be sparse");
    sparse[static_cast<size_t>(found - specs.begin())] = 1;
  }
  return sparse;
}

void validate(const std::vector<TensorSpec>& specs, const ReducerOptions& options, const std::vector<uint8_t>& sparse) {
  std::vector<int64_t> dense;
  for (size_t id = 0; id < specs.size(); ++id) {
    TW_EXPECTS(c10::isFloatingType(specs[id].dtype) || c10::isComplexType(specs[id].dtype), "gradient ", specs[id].describe(),
               " must be a floating point or complex one");
    TW_EXPECTS(specs[id].dtype != at::kHalf || options.reduction != Reduction::sample_weighted, "gradient ", specs[id].describe(),
               " would overflow when it is multiplied by a number of samples: weight the loss, and use Reduction::sum");
    if (sparse[id] == 0) dense.push_back(static_cast<int64_t>(id));
  }
  std::vector<int64_t> order = options.arrival_order;
  std::sort(order.begin(), order.end());
  TW_EXPECTS(order.empty() || order == dense, "arrival_order must name each gradient that is not sparse once");
  const bool sharded = options.sharding != Sharding::none;
  TW_EXPECTS(sharded || !options.release, "only sharded gradients can be released");
  TW_EXPECTS(!sharded || options.sparse.empty(), "sparse gradients cannot be sharded: ", options.sparse.front());
  TW_EXPECTS(!sharded || !options.compressor, "sharded gradients cannot be compressed");
}

}  // namespace

Reducer::Reducer(const Communicator& comm, std::vector<TensorSpec> gradients, const ReducerOptions& options)
    : comm_(comm), specs_(std::move(gradients)), options_(options) {
  overlap_ = options_.overlap.has_value() ? *options_.overlap : find_topology(comm_).nodes > 1;
  overlap_ = (overlap_ || options_.release) && !options_.compressor;
  expect_agreement(comm_, specs_, options_, overlap_);
  sparse_ = find_sparse(specs_, options_.sparse);
  validate(specs_, options_, sparse_);
  status_ = at::zeros({sizeof(Status) / sizeof(double)}, at::TensorOptions().dtype(at::kDouble));
  used_ = at::zeros({size()}, at::TensorOptions().dtype(at::kByte));
  marks_.assign(specs_.size(), Mark::none);
  rows_.resize(specs_.size());
  make_plan();
  make_buffers();
  if (options_.compressor) options_.compressor->prepare(plan_, specs_);
}

Reducer::~Reducer() = default;

void Reducer::make_plan() {
  std::vector<int64_t> order = options_.arrival_order;
  for (int64_t id = size() - 1; id >= 0 && options_.arrival_order.empty(); --id) {
    if (!is_sparse(id)) order.push_back(id);
  }
  Arrangement arrangement{.order = order};
  if (options_.sharding == Sharding::slices) arrangement.slices = comm_.size();
  if (options_.sharding == Sharding::tensors) {
    std::vector<int64_t> numels;
    for (const TensorSpec& spec : specs_) numels.push_back(spec.numel());
    arrangement.owners = assign_owners(numels, comm_.size());
  }
  plan_ = plan_buckets(specs_, options_.buckets, arrangement);
}

// Of released buckets only what this rank keeps is made here.
void Reducer::make_buffers() {
  buckets_.clear();
  buckets_.resize(plan_.buckets.size());
  places_.assign(specs_.size(), at::Tensor());
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    const bool sliced = options_.sharding == Sharding::slices;
    if (keeps(i)) {
      make_buffer(i);
    } else if (sliced) {
      buckets_[i].shard = at::zeros({bucket.numel / comm_.size()}, at::TensorOptions().dtype(bucket.dtype));
    }
    if (!keeps(i)) continue;
    const int64_t slice = bucket.numel / comm_.size();
    if (sliced) buckets_[i].shard = buckets_[i].buffer.storage().narrow(0, comm_.rank() * slice, slice);
    if (bucket.owner == comm_.rank()) buckets_[i].shard = buckets_[i].buffer.storage();
  }
}

void Reducer::make_buffer(size_t bucket) {
  const auto& [dtype, numel, gradients, owner] = plan_.buckets[bucket];
  const bool shared = options_.shared_memory && !options_.release;
  buckets_[bucket].buffer = shared ? FlatBuffer(shared_tensor(comm_, {numel}, dtype)) : FlatBuffer(numel, dtype);
  for (const int64_t id : gradients) {
    const auto index = static_cast<size_t>(id);
    places_[index] = buckets_[bucket].buffer.view(plan_.placements[index].offset, specs_[index].shape);
  }
}

// Whether the bucket has memory all the time.
bool Reducer::keeps(size_t bucket) const { return !options_.release || plan_.buckets[bucket].owner == comm_.rank(); }

void Reducer::begin(int64_t samples) {
  TW_EXPECTS(!in_step_, "begin() was called twice without wait(): did the last backward pass fail?");
  TW_EXPECTS(samples >= 0, "a step cannot have ", samples, " samples");
  samples_ = samples;
  in_step_ = true;
  launched_ = 0;
  arrivals_.clear();
  std::fill(marks_.begin(), marks_.end(), Mark::none);
  std::fill(rows_.begin(), rows_.end(), at::Tensor());
  for (size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].missing = static_cast<int64_t>(plan_.buckets[i].gradients.size());
    buckets_[i].launched = false;
  }
}

void Reducer::mark_ready(int64_t id) { mark_ready(id, gradient(id)); }

void Reducer::mark_ready(int64_t id, const at::Tensor& value) {
  expect_unmarked(id);
  const at::NoGradGuard no_grad;
  const TensorSpec& spec = specs_[static_cast<size_t>(id)];
  TW_EXPECTS(value.is_cpu(), "gradient ", spec.describe(), " is reduced on the CPU, and was marked ready with a value on ", value.device().str());
  TW_EXPECTS(value.sizes() == spec.shape && value.scalar_type() == spec.dtype, "gradient ", spec.describe(), " was marked ready with a value of ",
             dtype_name(value.scalar_type()), " ", shape_text(value.sizes().vec()));
  const double weight = factor_before_sum();
  if (is_sparse(id)) {
    if (weight != 0) rows_[static_cast<size_t>(id)] = (value.is_sparse() ? value : value.to_sparse(1)).mul(weight);
    mark(id, Mark::ready);
    return;
  }
  TW_EXPECTS(!value.is_sparse(), "gradient ", spec.describe(),
             " is sparse: name it in ReducerOptions::sparse, or train with DataParallel, which finds a module's sparse embeddings; "
             "DistributedOptimizer and allreduce_gradients() take dense gradients only");
  const at::Tensor place = place_of(id);
  if (weight == 0) {
    place.zero_();  // not a product: the gradient of a mean over no samples is not a number
  } else if (weight != 1 || !value.is_same(place)) {
    scaled_copy(value, weight, place);
  }
  mark(id, Mark::ready);
}

void Reducer::mark_unused(int64_t id) {
  expect_unmarked(id);
  const at::NoGradGuard no_grad;
  if (!is_sparse(id)) place_of(id).zero_();
  mark(id, Mark::unused);
}

void Reducer::expect_unmarked(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  TW_EXPECTS(in_step_, "gradient ", specs_[static_cast<size_t>(id)].name, " was marked outside a step: begin() first");
  TW_EXPECTS(!marked(id), "gradient ", specs_[static_cast<size_t>(id)].name, " was marked twice in one step");
}

at::Tensor Reducer::place_of(int64_t id) {
  const auto bucket = static_cast<size_t>(plan_.placements[static_cast<size_t>(id)].bucket);
  if (!buckets_[bucket].buffer.storage().defined()) make_buffer(bucket);
  return places_[static_cast<size_t>(id)];
}

void Reducer::mark(int64_t id, Mark mark) {
  marks_[static_cast<size_t>(id)] = mark;
  if (mark == Mark::ready) arrivals_.push_back(id);
  const int64_t bucket = plan_.placements[static_cast<size_t>(id)].bucket;
  if (bucket >= 0) --buckets_[static_cast<size_t>(bucket)].missing;
  if (overlap_) launch_ready_buckets();
  if (options_.release) release_reduced_buckets();
}

// In plan order on every rank: a complete bucket waits for its predecessors, or ranks whose gradients arrive in different orders would
// call MPI in different orders.
void Reducer::launch_ready_buckets() {
  while (launched_ < buckets_.size() && buckets_[launched_].missing == 0) launch(launched_);
}

void Reducer::launch(size_t index) {
  InFlight& bucket = buckets_[index];
  const at::Tensor& storage = bucket.buffer.storage();
  bucket.began = std::chrono::steady_clock::now();
  switch (options_.sharding) {
    case Sharding::none: bucket.work = iallreduce(comm_, storage, ReduceOp::sum); break;
    case Sharding::slices: bucket.work = ireduce_scatter(comm_, storage, bucket.shard, ReduceOp::sum); break;
    case Sharding::tensors: bucket.work = ireduce(comm_, storage, ReduceOp::sum, Rank(plan_.buckets[index].owner)); break;
  }
  payload_bytes_ += static_cast<int64_t>(storage.nbytes());
  bucket.launched = true;
  ++launched_;
}

void Reducer::release_reduced_buckets() {
  for (size_t i = 0; i < launched_; ++i) {
    InFlight& bucket = buckets_[i];
    if (keeps(i) || !bucket.buffer.storage().defined() || !bucket.work.test()) continue;
    bucket.buffer = FlatBuffer();
    for (const int64_t id : plan_.buckets[i].gradients) places_[static_cast<size_t>(id)] = at::Tensor();
  }
}

void Reducer::wait() {
  TW_EXPECTS(in_step_, "wait() without begin()");
  for (size_t id = 0; id < marks_.size(); ++id) {
    TW_EXPECTS(marks_[id] != Mark::none, "gradient ", specs_[id].name, " was not marked in this step");
  }
  in_step_ = false;
  const at::NoGradGuard no_grad;
  const Stopwatch exposed;
  const Status status = exchange_status();
  const double factor = factor_after_sum(status);
  finite_ = true;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) finish_bucket(bucket, factor);
  if (!options_.sparse.empty()) reduce_sparse(factor);
  if (options_.check_finite && options_.sharding != Sharding::none) agree_on_finite();
  used_.fill_(1);
  if (status.unused > 0) agree_on_unused();
  if (++steps_ == 1) follow_arrival_order();
  exposed_time_ += exposed.elapsed();
}

void Reducer::finish_bucket(size_t index, double factor) {
  InFlight& bucket = buckets_[index];
  if (options_.compressor) {
    bucket.began = std::chrono::steady_clock::now();
    scale(bucket.buffer.storage(), factor);  // before it is compressed: what is left over must keep its weight from step to step
    factor = 1;
    payload_bytes_ += options_.compressor->reduce(comm_, index, bucket.buffer.storage());
  } else {
    if (!bucket.launched) launch(index);
    bucket.work.wait();
  }
  if (options_.on_bucket) options_.on_bucket(static_cast<int64_t>(index), bucket.began, std::chrono::steady_clock::now());
  if (options_.release) release_reduced_buckets();
  const at::Tensor reduced = options_.sharding == Sharding::none ? bucket.buffer.storage() : bucket.shard;
  if (!reduced.defined()) return;
  if (options_.check_finite) {
    finite_ = scale_finite(reduced, factor) && finite_;
  } else {
    scale(reduced, factor);
  }
}

void Reducer::reduce_sparse(double factor) {
  for (size_t id = 0; id < specs_.size(); ++id) {
    if (sparse_[id] == 0) continue;
    const at::Tensor& mine = rows_[id];
    if (mine.defined()) payload_bytes_ += static_cast<int64_t>(mine._values().nbytes() + mine._indices().nbytes());
    places_[id] = sum_of_rows(comm_, specs_[id], mine, factor);
    if (options_.check_finite) finite_ = scale_finite(places_[id].values(), 1) && finite_;
  }
}

// Each rank has looked at its own share.
void Reducer::agree_on_finite() {
  status_.fill_(finite_ ? 1 : 0);
  allreduce(comm_, status_, ReduceOp::min);
  finite_ = status_.const_data_ptr<double>()[0] == 1;
}

Reducer::Status Reducer::exchange_status() {
  auto& status = *static_cast<Status*>(status_.mutable_data_ptr());
  status = {static_cast<double>(samples_), static_cast<double>(std::count(marks_.begin(), marks_.end(), Mark::unused)), my_notices_};
  allreduce(comm_, status_, ReduceOp::sum);
  notices_ = status.notices;
  my_notices_ = {};
  return status;
}

// The copy into the bucket multiplies at no cost; a pass over the buckets after the sum would cost as much as the copy.
double Reducer::factor_before_sum() const {
  switch (options_.reduction) {
    case Reduction::sum: return 1;
    case Reduction::mean: return 1.0 / comm_.size();
    case Reduction::sample_weighted: return static_cast<double>(samples_);
  }
  return 1;
}

double Reducer::factor_after_sum(const Status& status) const {
  return options_.reduction == Reduction::sample_weighted && status.samples > 0 ? 1.0 / status.samples : 1.0;
}

void Reducer::agree_on_unused() {
  for (size_t id = 0; id < marks_.size(); ++id) used_.mutable_data_ptr<uint8_t>()[id] = marks_[id] == Mark::unused ? 0 : 1;
  allreduce(comm_, used_, ReduceOp::max);
}

// After the first step: buckets in the order in which rank 0's gradients came. What the step reduced moves along.
void Reducer::follow_arrival_order() {
  if (!overlap_ || buckets_.size() == 1 || comm_.size() == 1 || options_.sharding != Sharding::none || !options_.arrival_order.empty()) return;
  std::vector<int64_t> order;
  for (const int64_t id : arrivals_) {
    if (!is_sparse(id)) order.push_back(id);
  }
  for (int64_t id = size() - 1; id >= 0; --id) {
    if (!is_sparse(id) && marks_[static_cast<size_t>(id)] == Mark::unused) order.push_back(id);
  }
  const at::Tensor agreed = at::from_blob(order.data(), {static_cast<int64_t>(order.size())}, at::TensorOptions().dtype(at::kLong)).clone();
  broadcast(comm_, agreed, Rank(0));
  options_.arrival_order.assign(agreed.const_data_ptr<int64_t>(), agreed.const_data_ptr<int64_t>() + agreed.numel());
  const std::vector<at::Tensor> old = places_;
  make_plan();
  make_buffers();
  for (size_t id = 0; id < specs_.size(); ++id) {
    if (is_sparse(static_cast<int64_t>(id))) {
      places_[id] = old[id];
    } else {
      places_[id].copy_(old[id]);
    }
  }
}

const at::Tensor& Reducer::gradient(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  const at::Tensor& place = places_[static_cast<size_t>(id)];
  TW_EXPECTS(place.defined(), "gradient ", specs_[static_cast<size_t>(id)].name, " has no memory: it is sparse and was not reduced yet, or released");
  return place;
}

at::Tensor Reducer::shard(int64_t bucket) const { return buckets_.at(static_cast<size_t>(bucket)).shard; }

std::vector<ShardPiece> Reducer::pieces() const {
  TW_EXPECTS(options_.sharding != Sharding::none, "these gradients are not sharded");
  return shard_pieces(plan_, specs_, comm_.rank(), comm_.size());
}

void Reducer::give_notice(int kind) { my_notices_.at(static_cast<size_t>(kind)) = 1; }
int64_t Reducer::notices(int kind) const { return static_cast<int64_t>(notices_.at(static_cast<size_t>(kind))); }

bool Reducer::marked(int64_t id) const { return marks_.at(static_cast<size_t>(id)) != Mark::none; }
bool Reducer::used(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  return used_.const_data_ptr<uint8_t>()[id] != 0;
}

}  // namespace tw

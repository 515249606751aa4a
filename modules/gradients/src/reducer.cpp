// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/tensor/known_memory.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bucket_buffers.hpp"
#include "bucket_transport.hpp"
#include "packing.hpp"
#include "reducer_options.hpp"
#include "replicas.hpp"
#include "scaling.hpp"
#include "side_stream.hpp"
#include "sparse.hpp"

namespace tw {
namespace {

constexpr size_t max_in_flight = 2;  // released buckets in flight while another is filled

// Integers are all equal if and only if the mean of their squares is the square of their mean. With 20 bits each, sums over up to 2^13 ranks are
// exact.
constexpr uint64_t half_of_mark = (1U << 20U) - 1;
std::array<double, 4> to_sum(uint64_t mark) {
  const auto low = static_cast<double>(mark & half_of_mark);
  const auto high = static_cast<double>((mark >> 20U) & half_of_mark);
  return {low, low * low, high, high * high};
}
bool are_equal(double sum, double sum_of_squares, double ranks) {
  const double mean = sum / ranks;
  return mean == std::floor(mean) && mean * mean * ranks == sum_of_squares;
}

}  // namespace

Reducer::Reducer(const Communicator& comm, std::vector<TensorSpec> gradients, const ReducerOptions& options)
    : comm_(comm), specs_(std::move(gradients)), options_(options), arrival_order_(options.arrival_order) {
  overlap_ = options_.overlap.has_value() ? *options_.overlap : find_topology(comm_).nodes > 1;
  const bool is_weighted_later = options_.compressor && options_.reduction == Reduction::sample_weighted;
  overlap_ = (overlap_ || options_.release) && !is_weighted_later;
  ReducerOptions settled = options_;
  settled.overlap = overlap_;
  expect_same_on_all_ranks(comm_, specs_, settled);
  sparse_ = find_sparse(specs_, options_.sparse);
  validate(options_, specs_, sparse_);
  transport_ = transport_of(options_);
  make_step();
  side_ = std::make_unique<SideStream>(comm_.size() > 1 ? options_.device : c10::Device(c10::kCPU));
  make_buckets();
  if (options_.compressor) options_.compressor->prepare(plan_, specs_, options_.device);
}

Reducer::~Reducer() = default;

void Reducer::make_step() {
  status_ = at::zeros({sizeof(Status) / sizeof(double)}, at::TensorOptions().dtype(at::kDouble));
  used_ = at::zeros({size()}, at::TensorOptions().dtype(at::kByte));
  marks_.assign(specs_.size(), Mark::none);
  rows_.assign(specs_.size(), at::Tensor());
  sums_.assign(specs_.size(), at::Tensor());
  my_votes_ = {};
  step_fingerprint_ = 0;
  in_step_ = failed_ = false;
}

// The failed step's messages may still be written, so all memory that they use is replaced.
void Reducer::restart() {
  TW_EXPECTS(why_no_restart().empty(), why_no_restart());
  make_step();
  progress_.clear();
  replicas_.reset();
  buffers_.reset();
  make_buckets();
}

std::string Reducer::why_no_restart() const {
  if (!options_.compressor || options_.compressor->shards().empty()) return "";
  return concat("the residuals of the compression (", options_.compressor->describe(), ") contain a part of the failed step");
}

void Reducer::make_buckets() {
  std::vector<int64_t> order = arrival_order_;
  for (int64_t id = size() - 1; id >= 0 && arrival_order_.empty(); --id) {
    if (!is_sparse(id)) order.push_back(id);
  }
  Arrangement arrangement{.order = order, .groups = options_.groups};
  if (options_.sharding != Sharding::none) arrangement.groups = groups_of_replicas(specs_, options_.parts, options_.groups);
  if (options_.sharding == Sharding::slices) arrangement.slices = comm_.size();
  if (options_.sharding == Sharding::tensors) {
    std::vector<int64_t> numels;
    for (const TensorSpec& spec : specs_) numels.push_back(spec.numel());
    arrangement.owners = assign_owners(numels, comm_.size(), arrangement.groups);
  }
  plan_ = plan_buckets(specs_, options_.buckets, arrangement);
  buffers_ = std::make_unique<BucketBuffers>(comm_, plan_, specs_, options_);
  if (!options_.device.is_cpu()) packing_ = std::make_unique<Packing>(*side_, plan_.buckets.size());
  progress_.clear();
  progress_.resize(plan_.buckets.size());
  replicas_ = options_.parts.empty() ? nullptr : std::make_unique<Replicas>(comm_, plan_, specs_, options_, *buffers_);
}

void Reducer::begin(int64_t samples) {
  if (in_step_) end_failed_step();
  TW_EXPECTS(samples >= 0, "a step cannot have ", samples, " samples");
  samples_ = samples;
  in_step_ = true;
  launched_ = 0;
  arrivals_.clear();
  std::fill(marks_.begin(), marks_.end(), Mark::none);
  std::fill(rows_.begin(), rows_.end(), at::Tensor());
  for (size_t i = 0; i < progress_.size(); ++i) {
    progress_[i].missing = static_cast<int64_t>(plan_.buckets[i].gradients.size());
    progress_[i].launched = false;
  }
}

// Other ranks may wait for this rank's share of the step: joins their remaining collectives and reports the failure.
void Reducer::end_failed_step() {
  TW_EXPECTS(in_step_, "end_failed_step() was called outside a step");
  for (int64_t id = 0; id < size(); ++id) {
    if (!marked(id)) mark_unused(id);
  }
  failed_ = true;
  wait();
  const at::NoGradGuard no_grad;
  for (size_t bucket = 0; bucket < progress_.size(); ++bucket) {
    if (buffers_->values(bucket).defined()) buffers_->values(bucket).zero_();
  }
}

void Reducer::mark_ready(int64_t id, const at::Tensor& value) {
  expect_unmarked(id);
  const at::NoGradGuard no_grad;
  const TensorSpec& spec = specs_[static_cast<size_t>(id)];
  TW_EXPECTS(value.device() == options_.device, "gradient ", spec.describe(), " is reduced on ", options_.device.str(),
             ", but was marked ready with a value on ", value.device().str());
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
  if (options_.release) limit_buckets_in_flight(bucket_of(id));
  const at::Tensor& place = buffers_->place_to_write(id);
  if (packing_) {
    packing_->add(bucket_of(id), value, place);
  } else if (weight == 0) {
    place.zero_();  // not multiplied: the gradient of a mean over no samples is NaN
  } else if (weight != 1 || !value.is_same(place)) {
    scaled_copy(value, weight, place);
  }
  mark(id, Mark::ready);
}

void Reducer::mark_unused(int64_t id) {
  expect_unmarked(id);
  const at::NoGradGuard no_grad;
  if (!is_sparse(id)) {
    if (options_.release) limit_buckets_in_flight(bucket_of(id));
    const at::Tensor& place = buffers_->place_to_write(id);
    if (packing_) {
      packing_->add_zeros(bucket_of(id), place);
    } else {
      place.zero_();
    }
  }
  mark(id, Mark::unused);
}

void Reducer::expect_unmarked(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  TW_EXPECTS(in_step_, "gradient ", specs_[static_cast<size_t>(id)].name, " was marked ready outside a step: call begin() first");
  TW_EXPECTS(!marked(id), "gradient ", specs_[static_cast<size_t>(id)].name, " was marked ready twice in one step");
}

void Reducer::mark(int64_t id, Mark mark) {
  marks_[static_cast<size_t>(id)] = mark;
  if (mark == Mark::ready) arrivals_.push_back(id);
  if (!is_sparse(id) && --progress_[bucket_of(id)].missing == 0) complete(bucket_of(id));
  if (options_.release) release_reduced_buckets();
}

void Reducer::complete(size_t bucket) {
  const SideStream::Scope beside(*side_);
  if (packing_) packing_->pack(bucket, factor_before_sum());
  if (overlap_) launch_ready_buckets();
}

// Launches in plan order on every rank: a complete bucket waits for its predecessors. Otherwise ranks whose gradients arrive in different orders
// would call MPI in different orders.
void Reducer::launch_ready_buckets() {
  while (launched_ < progress_.size() && progress_[launched_].missing == 0) launch(launched_);
}

void Reducer::launch(size_t index) {
  Progress& bucket = progress_[index];
  bucket.began = std::chrono::steady_clock::now();
  bucket.sum = transport_->begin(comm_, index, plan_.buckets[index], buffers_->values(index), buffers_->share(index));
  bucket.launched = true;
  payload_bytes_ += bucket.sum.bytes;
  ++launched_;
}

void Reducer::release_reduced_buckets() {
  for (size_t i = 0; i < launched_; ++i) {
    if (!buffers_->stays(i) && buffers_->values(i).defined() && progress_[i].sum.work.test()) buffers_->release(i);
  }
}

// Call before a bucket gets memory: a rank ahead of the others must not allocate all buckets.
void Reducer::limit_buckets_in_flight(size_t next) {
  if (buffers_->stays(next) || buffers_->values(next).defined()) return;
  size_t in_flight = 0;
  for (size_t i = launched_; i-- > 0;) {
    if (buffers_->stays(i) || !buffers_->values(i).defined() || ++in_flight <= max_in_flight) continue;
    progress_[i].sum.work.wait();
    buffers_->release(i);
  }
}

void Reducer::wait() {
  TW_EXPECTS(in_step_, "wait() was called outside a step: call begin() first");
  for (size_t id = 0; id < marks_.size(); ++id) {
    TW_EXPECTS(marks_[id] != Mark::none, "gradient ", specs_[id].name,
               " was not marked in this step: call mark_ready() or mark_unused() for each gradient before wait()");
  }
  in_step_ = false;
  const bool failed_here = std::exchange(failed_, false);
  const at::NoGradGuard no_grad;
  const Stopwatch exposed;
  const int64_t failed = reduce(failed_here);
  side_->join();
  if (failed == 0 && ++steps_ == 1) follow_arrival_order();  // after join(): new buckets belong to the stream that uses the gradients
  exposed_time_ += exposed.elapsed();
  if (failed == 0 || failed_here) return;
  throw Error(concat("an exception ended this step on ", failed, " of ", comm_.size(), " ranks of '", comm_.name(),
                     "': the reduced gradients lack the share of these ranks. Skip this update, and continue with the next step"));
}

// @return the number of ranks on which the step failed
int64_t Reducer::reduce(bool failed_here) {
  const SideStream::Scope beside(*side_);
  Work exchange = begin_exchange(failed_here);
  if (transport_->is_linear() && launched_ == 0 && !progress_.empty()) launch(0);  // the factor may be applied later
  exchange.wait();
  const Status status = end_exchange();
  const double factor = factor_after_sum(status);
  if (!transport_->is_linear()) launch_weighted(factor);
  FiniteCheck check;
  for (size_t bucket = 0; bucket < progress_.size(); ++bucket) finish_bucket(bucket, transport_->is_linear() ? factor : 1, check);
  if (!options_.sparse.empty()) reduce_sparse(factor, check);
  if (replicas_) replicas_->make_equal();
  finite_ = check.passed(comm_);
  if (options_.check_finite && options_.sharding != Sharding::none) agree_on_finite();
  used_.fill_(1);
  if (status.unused > 0) agree_on_unused();
  return static_cast<int64_t>(status.failed);
}

// Launches all remaining buckets, so that one is compressed while others are in flight. (If some were launched before, the factor is 1.)
void Reducer::launch_weighted(double factor) {
  for (size_t index = launched_; index < progress_.size(); ++index) {
    scale(buffers_->values(index), factor);
    launch(index);
  }
}

void Reducer::finish_bucket(size_t index, double factor, FiniteCheck& check) {
  Progress& bucket = progress_[index];
  if (!bucket.launched) launch(index);
  bucket.sum.work.wait();
  if (bucket.sum.finish) std::exchange(bucket.sum.finish, {})();
  if (options_.on_bucket) options_.on_bucket(static_cast<int64_t>(index), bucket.began, std::chrono::steady_clock::now());
  if (options_.release) release_reduced_buckets();
  const at::Tensor& reduced = options_.sharding == Sharding::none ? buffers_->values(index) : buffers_->share(index);
  if (!reduced.defined()) return;
  if (options_.check_finite) {
    check.scale(reduced, factor);
  } else {
    scale(reduced, factor);
  }
}

void Reducer::reduce_sparse(double factor, FiniteCheck& check) {
  for (size_t id = 0; id < specs_.size(); ++id) {
    if (sparse_[id] == 0) continue;
    const at::Tensor& mine = rows_[id];
    if (mine.defined()) payload_bytes_ += static_cast<int64_t>(mine._values().nbytes() + mine._indices().nbytes());
    sums_[id] = sum_of_rows(comm_, specs_[id], mine, factor);
    if (options_.check_finite) check.scale(sums_[id].values(), 1);
  }
}

// Each rank has checked only its own share.
void Reducer::agree_on_finite() {
  status_.fill_(finite_ ? 1 : 0);
  allreduce(comm_, status_, ReduceOp::min);
  finite_ = status_.const_data_ptr<double>()[0] == 1;
}

Work Reducer::begin_exchange(bool failed_here) {
  *static_cast<Status*>(status_.mutable_data_ptr()) = {.samples = static_cast<double>(samples_),
                                                       .unused = static_cast<double>(std::count(marks_.begin(), marks_.end(), Mark::unused)),
                                                       .failed = failed_here ? 1.0 : 0.0,
                                                       .votes = std::exchange(my_votes_, {}),
                                                       .mark = to_sum(std::exchange(step_fingerprint_, 0))};
  return iallreduce(comm_, status_, ReduceOp::sum);
}

Reducer::Status Reducer::end_exchange() {
  const Status status = *static_cast<const Status*>(status_.const_data_ptr());
  votes_ = status.votes;
  fingerprints_agree_ = are_equal(status.mark[0], status.mark[1], comm_.size()) && are_equal(status.mark[2], status.mark[3], comm_.size());
  return status;
}

// Scaling during the copy into the bucket is free; a pass over the buckets after the sum would cost as much as the copy.
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
  for (int64_t id = 0; id < size() && options_.compressor; ++id) {
    if (!used(id) && !is_sparse(id)) options_.compressor->take_back(id, gradient(id), comm_.size());
  }
}

// After the first step, reorders buckets by the arrival of rank 0's gradients. The reduced values move along.
void Reducer::follow_arrival_order() {
  if (!overlap_ || options_.compressor || progress_.size() == 1 || comm_.size() == 1 || options_.sharding != Sharding::none ||
      !arrival_order_.empty())
    return;
  std::vector<int64_t> order;
  for (const int64_t id : arrivals_) {
    if (!is_sparse(id)) order.push_back(id);
  }
  for (int64_t id = size() - 1; id >= 0; --id) {
    if (!is_sparse(id) && marks_[static_cast<size_t>(id)] == Mark::unused) order.push_back(id);
  }
  const at::Tensor agreed = at::from_blob(order.data(), {static_cast<int64_t>(order.size())}, at::TensorOptions().dtype(at::kLong)).clone();
  broadcast(comm_, agreed, Rank(0));
  arrival_order_.assign(agreed.const_data_ptr<int64_t>(), agreed.const_data_ptr<int64_t>() + agreed.numel());
  std::vector<at::Tensor> reduced;
  for (int64_t id = 0; id < size(); ++id) reduced.push_back(buffers_->place(id));
  make_buckets();
  for (int64_t id = 0; id < size(); ++id) {
    if (!is_sparse(id)) buffers_->place(id).copy_(reduced[static_cast<size_t>(id)]);
  }
}

const at::Tensor& Reducer::gradient(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  const at::Tensor& place = is_sparse(id) ? sums_[static_cast<size_t>(id)] : buffers_->place(id);
  TW_EXPECTS(place.defined(), "gradient ", specs_[static_cast<size_t>(id)].name, " has no memory: it is sparse and not reduced yet, or was released");
  return place;
}

at::Tensor Reducer::shard(int64_t bucket) const {
  TW_EXPECTS(bucket >= 0 && bucket < static_cast<int64_t>(progress_.size()), "there is no bucket ", bucket, "; there are ", progress_.size());
  return buffers_->share(static_cast<size_t>(bucket));
}

void Reducer::account(KnownMemory& known) const {
  known.add(MemoryUse::buffers, buffers_->kept_buffer());
  for (size_t bucket = 0; bucket < progress_.size(); ++bucket) known.add(MemoryUse::gradients, buffers_->share(bucket));
}

std::vector<ShardPiece> Reducer::pieces() const {
  TW_EXPECTS(options_.sharding != Sharding::none, "only sharded gradients have pieces: set ReducerOptions::sharding");
  return shard_pieces(plan_, specs_, comm_.rank(), comm_.size());
}

void Reducer::vote(int kind) { my_votes_.at(static_cast<size_t>(kind)) = 1; }
int64_t Reducer::votes(int kind) const { return static_cast<int64_t>(votes_.at(static_cast<size_t>(kind))); }

bool Reducer::marked(int64_t id) const { return marks_.at(static_cast<size_t>(id)) != Mark::none; }
bool Reducer::used(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  return used_.const_data_ptr<uint8_t>()[id] != 0;
}

}  // namespace tw

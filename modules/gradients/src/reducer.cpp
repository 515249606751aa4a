// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/topology.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>

#include <algorithm>

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

void expect_agreement(const Communicator& comm, const std::vector<TensorSpec>& specs, Reduction reduction) {
  std::vector<std::string> lines{concat("reduction ", name_of(reduction))};
  for (const TensorSpec& spec : specs) lines.push_back(spec.describe());
  expect_same_on_all_ranks(comm, "the gradients to be reduced", lines);
  for (const TensorSpec& spec : specs) {
    TW_EXPECTS(spec.dtype == at::kFloat || spec.dtype == at::kDouble, "gradient ", spec.describe(), " must be float32 or float64");
  }
}

}  // namespace

Reducer::Reducer(const Communicator& comm, std::vector<TensorSpec> gradients, const ReducerOptions& options)
    : comm_(comm), specs_(std::move(gradients)), reduction_(options.reduction) {
  expect_agreement(comm_, specs_, reduction_);
  plan_ = plan_buckets(specs_, options.buckets);
  overlap_ = options.overlap.has_value() ? *options.overlap : find_topology(comm_).nodes > 1;
  for (const Bucket& bucket : plan_.buckets) buffers_.emplace_back(bucket.numel, bucket.dtype);
  for (size_t id = 0; id < specs_.size(); ++id) {
    const Placement& place = plan_.placements[id];
    views_.push_back(buffers_[static_cast<size_t>(place.bucket)].view(place.offset, specs_[id].shape));
  }
  status_ = buffers_[static_cast<size_t>(plan_.status.bucket)].view(plan_.status.offset, {BucketPlan::status_numel});
  marks_.assign(specs_.size(), Mark::none);
  used_.assign(specs_.size(), 0);
}

void Reducer::begin(int64_t samples) {
  TW_EXPECTS(!in_step_, "begin() was called twice without wait(): did the last backward pass fail?");
  TW_EXPECTS(samples >= 0, "a step cannot have ", samples, " samples");
  samples_ = samples;
  in_step_ = true;
  std::fill(marks_.begin(), marks_.end(), Mark::none);
  missing_.clear();
  for (const Bucket& bucket : plan_.buckets) missing_.push_back(static_cast<int64_t>(bucket.gradients.size()));
}

// What this rank's gradients are multiplied by before they are summed.
double Reducer::weight() const {
  switch (reduction_) {
    case Reduction::sum: return 1;
    case Reduction::mean: return 1.0 / comm_.size();
    case Reduction::sample_weighted: return static_cast<double>(samples_);
  }
  return 1;
}

void Reducer::mark_ready(int64_t id) { mark_ready(id, gradient(id)); }

void Reducer::mark_ready(int64_t id, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  at::Tensor view = gradient(id);
  TW_EXPECTS(value.sizes() == view.sizes() && value.scalar_type() == view.scalar_type(), "gradient ",
             specs_[static_cast<size_t>(id)].describe(), " was marked ready with a value of ", dtype_name(value.scalar_type()), " ",
             shape_text(value.sizes().vec()));
  if (const double factor = weight(); factor == 0) {
    view.zero_();  // not a product: the gradient of a mean over no samples is not a number
  } else if (factor != 1) {
    at::mul_outf(value, factor, view);
  } else if (!value.is_same(view)) {
    view.copy_(value);
  }
  mark(id, Mark::ready);
}

void Reducer::mark_unused(int64_t id) {
  const at::NoGradGuard no_grad;
  at::Tensor view = gradient(id);
  view.zero_();
  mark(id, Mark::unused);
}

void Reducer::mark(int64_t id, Mark mark) {
  TW_EXPECTS(in_step_, "gradient ", specs_[static_cast<size_t>(id)].name, " was marked outside a step: begin() first");
  Mark& current = marks_[static_cast<size_t>(id)];
  TW_EXPECTS(current == Mark::none, "gradient ", specs_[static_cast<size_t>(id)].name, " was marked twice in one step");
  current = mark;
  --missing_[static_cast<size_t>(plan_.placements[static_cast<size_t>(id)].bucket)];
  if (overlap_) launch_ready_buckets();
}

// In plan order on every rank: a complete bucket waits for its predecessors, or ranks whose gradients arrive in different orders would
// call MPI in different orders.
void Reducer::launch_ready_buckets() {
  while (works_.size() < buffers_.size() && missing_[works_.size()] == 0) {
    const size_t bucket = works_.size();
    if (static_cast<int64_t>(bucket) == plan_.status.bucket) fill_status();
    works_.push_back(iallreduce(comm_, buffers_[bucket].storage(), ReduceOp::sum));
  }
}

void Reducer::fill_status() {
  const at::NoGradGuard no_grad;
  status_[0].fill_(static_cast<double>(samples_));
  status_[1].fill_(static_cast<double>(std::count(marks_.begin(), marks_.end(), Mark::unused)));
}

void Reducer::wait() {
  TW_EXPECTS(in_step_, "wait() without begin()");
  for (size_t id = 0; id < marks_.size(); ++id) {
    TW_EXPECTS(marks_[id] != Mark::none, "gradient ", specs_[id].name, " was not marked in this step");
  }
  in_step_ = false;
  const at::NoGradGuard no_grad;
  const Stopwatch exposed;
  if (overlap_) {
    for (Work& work : works_) work.wait();
    works_.clear();
  } else {
    fill_status();
    for (const FlatBuffer& buffer : buffers_) allreduce(comm_, buffer.storage(), ReduceOp::sum);
  }
  const bool unused_somewhere = status_[1].item<double>() > 0;
  std::fill(used_.begin(), used_.end(), uint8_t{1});
  if (unused_somewhere) agree_on_unused();
  exposed_time_ += exposed.elapsed();

  const double samples = status_[0].item<double>();
  if (reduction_ == Reduction::sample_weighted && samples > 0) {
    for (const FlatBuffer& buffer : buffers_) at::Tensor(buffer.storage()).mul_(1.0 / samples);
  }
}

void Reducer::agree_on_unused() {
  for (size_t id = 0; id < marks_.size(); ++id) used_[id] = marks_[id] == Mark::unused ? 0 : 1;
  allreduce(comm_, at::from_blob(used_.data(), {size()}, at::TensorOptions().dtype(at::kByte)), ReduceOp::max);
}

const at::Tensor& Reducer::gradient(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  return views_[static_cast<size_t>(id)];
}

bool Reducer::marked(int64_t id) const { return marks_.at(static_cast<size_t>(id)) != Mark::none; }
bool Reducer::used(int64_t id) const { return used_.at(static_cast<size_t>(id)) != 0; }

}  // namespace tw

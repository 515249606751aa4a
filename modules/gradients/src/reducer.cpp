// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/topology.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

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

// Calls `call` with a pointer to the elements of a contiguous float32 or float64 tensor.
template <class Call>
void on_elements(const at::Tensor& tensor, Call call) {
  if (tensor.scalar_type() == at::kDouble) {
    call(tensor.mutable_data_ptr<double>());
  } else {
    call(tensor.mutable_data_ptr<float>());
  }
}

// to = factor * from, for tensors of one shape and dtype. By hand where memory is contiguous: for small gradients ATen's dispatch takes longer
// than the work.
void scaled_copy(const at::Tensor& from, double factor, const at::Tensor& to) {
  if (!from.is_contiguous()) {
    at::Tensor out = to;
    at::mul_outf(from, factor, out);
    return;
  }
  on_elements(to, [&](auto* out) {
    using Element = std::remove_pointer_t<decltype(out)>;
    const Element* in = from.const_data_ptr<Element>();
    const int64_t n = to.numel();
    if (factor == 1 && n > 0) {
      std::memmove(out, in, static_cast<size_t>(n) * sizeof(Element));
      return;
    }
    const auto scale = static_cast<Element>(factor);
    for (int64_t i = 0; i < n; ++i) out[i] = scale * in[i];
  });
}

void scale(const at::Tensor& tensor, double factor) {
  if (factor != 1) scaled_copy(tensor, factor, tensor);
}

// Scales, and says whether every product is finite. A number is not when its exponent is all ones; as whole numbers, comparisons vectorise.
bool scale_finite(const at::Tensor& tensor, double factor) {
  bool finite = true;
  on_elements(tensor, [&](auto* values) {
    using Element = std::remove_pointer_t<decltype(values)>;
    using Bits = std::conditional_t<sizeof(Element) == 8, uint64_t, uint32_t>;
    constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<Element>::infinity());
    constexpr int64_t block = 4096;
    const auto scale = static_cast<Element>(factor);
    const int64_t n = tensor.numel();
    for (int64_t begin = 0; begin < n; begin += block) {
      const int64_t end = std::min(n, begin + block);
      Bits bad = 0;
      for (int64_t i = begin; i < end; ++i) {
        values[i] *= scale;
        bad |= static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent);
      }
      finite = finite && bad == 0;
    }
  });
  return finite;
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
    : comm_(comm), specs_(std::move(gradients)), reduction_(options.reduction), check_finite_(options.check_finite), on_bucket_(options.on_bucket) {
  expect_agreement(comm_, specs_, reduction_);
  plan_ = plan_buckets(specs_, options.buckets);
  overlap_ = options.overlap.has_value() ? *options.overlap : find_topology(comm_).nodes > 1;
  for (const Bucket& bucket : plan_.buckets) {
    buffers_.push_back(options.shared_memory ? FlatBuffer(shared_tensor(comm_, {bucket.numel}, bucket.dtype))
                                             : FlatBuffer(bucket.numel, bucket.dtype));
  }
  for (size_t id = 0; id < specs_.size(); ++id) {
    const Placement& place = plan_.placements[id];
    views_.push_back(buffers_[static_cast<size_t>(place.bucket)].view(place.offset, specs_[id].shape));
  }
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

void Reducer::mark_ready(int64_t id) { mark_ready(id, gradient(id)); }

void Reducer::mark_ready(int64_t id, const at::Tensor& value) {
  expect_unmarked(id);
  const at::NoGradGuard no_grad;
  const at::Tensor& view = gradient(id);
  TW_EXPECTS(value.sizes() == view.sizes() && value.scalar_type() == view.scalar_type(), "gradient ", specs_[static_cast<size_t>(id)].describe(),
             " was marked ready with a value of ", dtype_name(value.scalar_type()), " ", shape_text(value.sizes().vec()));
  if (const double weight = factor_before_sum(); weight == 0) {
    view.zero_();  // not a product: the gradient of a mean over no samples is not a number
  } else if (weight != 1 || !value.is_same(view)) {
    scaled_copy(value, weight, view);
  }
  mark(id, Mark::ready);
}

void Reducer::mark_unused(int64_t id) {
  expect_unmarked(id);
  const at::NoGradGuard no_grad;
  gradient(id).zero_();
  mark(id, Mark::unused);
}

void Reducer::expect_unmarked(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  TW_EXPECTS(in_step_, "gradient ", specs_[static_cast<size_t>(id)].name, " was marked outside a step: begin() first");
  TW_EXPECTS(!marked(id), "gradient ", specs_[static_cast<size_t>(id)].name, " was marked twice in one step");
}

void Reducer::mark(int64_t id, Mark mark) {
  marks_[static_cast<size_t>(id)] = mark;
  --missing_[static_cast<size_t>(plan_.placements[static_cast<size_t>(id)].bucket)];
  if (overlap_) launch_ready_buckets();
}

// In plan order on every rank: a complete bucket waits for its predecessors, or ranks whose gradients arrive in different orders would
// call MPI in different orders.
void Reducer::launch_ready_buckets() {
  while (works_.size() < buffers_.size() && missing_[works_.size()] == 0) {
    launched_.push_back(std::chrono::steady_clock::now());
    works_.push_back(iallreduce(comm_, buffers_[works_.size()].storage(), ReduceOp::sum));
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
  for (size_t bucket = 0; bucket < buffers_.size(); ++bucket) reduce_bucket(bucket, factor);
  launched_.clear();
  works_.clear();
  std::fill(used_.begin(), used_.end(), uint8_t{1});
  if (status.unused > 0) agree_on_unused();
  exposed_time_ += exposed.elapsed();
}

void Reducer::reduce_bucket(size_t bucket, double factor) {
  const at::Tensor& storage = buffers_[bucket].storage();
  const auto begin = overlap_ ? launched_[bucket] : std::chrono::steady_clock::now();
  if (overlap_) {
    works_[bucket].wait();
  } else {
    allreduce(comm_, storage, ReduceOp::sum);
  }
  if (on_bucket_) on_bucket_(static_cast<int64_t>(bucket), begin, std::chrono::steady_clock::now());
  if (check_finite_) {
    finite_ = scale_finite(storage, factor) && finite_;
  } else {
    scale(storage, factor);
  }
}

Reducer::Status Reducer::exchange_status() {
  Status status{static_cast<double>(samples_), static_cast<double>(std::count(marks_.begin(), marks_.end(), Mark::unused)), my_notices_};
  static_assert(sizeof(Status) == 4 * sizeof(double));
  const at::Tensor numbers = at::from_blob(&status, {4}, at::TensorOptions().dtype(at::kDouble));
  allreduce(comm_, numbers, ReduceOp::sum);
  notices_ = status.notices;
  my_notices_ = {};
  return status;
}

// The copy into the bucket multiplies at no cost; a pass over the buckets after the sum would cost as much as the copy.
double Reducer::factor_before_sum() const {
  switch (reduction_) {
    case Reduction::sum: return 1;
    case Reduction::mean: return 1.0 / comm_.size();
    case Reduction::sample_weighted: return static_cast<double>(samples_);
  }
  return 1;
}

double Reducer::factor_after_sum(const Status& status) const {
  return reduction_ == Reduction::sample_weighted && status.samples > 0 ? 1.0 / status.samples : 1.0;
}

void Reducer::agree_on_unused() {
  for (size_t id = 0; id < marks_.size(); ++id) used_[id] = marks_[id] == Mark::unused ? 0 : 1;
  allreduce(comm_, at::from_blob(used_.data(), {size()}, at::TensorOptions().dtype(at::kByte)), ReduceOp::max);
}

const at::Tensor& Reducer::gradient(int64_t id) const {
  TW_EXPECTS(id >= 0 && id < size(), "there is no gradient ", id, "; there are ", size());
  return views_[static_cast<size_t>(id)];
}

void Reducer::give_notice(int kind) { my_notices_.at(static_cast<size_t>(kind)) = 1; }
int64_t Reducer::notices(int kind) const { return static_cast<int64_t>(notices_.at(static_cast<size_t>(kind))); }

bool Reducer::marked(int64_t id) const { return marks_.at(static_cast<size_t>(id)) != Mark::none; }
bool Reducer::used(int64_t id) const { return used_.at(static_cast<size_t>(id)) != 0; }

}  // namespace tw

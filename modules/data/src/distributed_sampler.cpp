// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/data/distributed_sampler.hpp>

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

int64_t divided_up(int64_t dividend, int64_t divisor) { return dividend / divisor + (dividend % divisor == 0 ? 0 : 1); }

}  // namespace

DistributedSampler::DistributedSampler(size_t samples, int size, int rank, const SamplerOptions& options)
    : samples_(static_cast<int64_t>(samples)), size_(size), rank_(rank), options_(options) {
  TW_EXPECTS(size > 0, "the number of ranks must be at least 1, got ", size);
  TW_EXPECTS(rank >= 0 && rank < size, "rank ", rank, " must be at least 0 and below the number of ranks, ", size);
}

void DistributedSampler::set_epoch(int64_t epoch) {
  TW_EXPECTS(epoch >= 0, "the epoch must be at least 0, got ", epoch);
  epoch_ = epoch;
  is_set_ = true;
  consumed_ = 0;
  end_ = end_of_epoch(0);
  if (options_.shuffle) {
    order_ = random_permutation(samples_, options_.seed, static_cast<uint64_t>(epoch));
  } else {
    order_.resize(static_cast<size_t>(samples_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }
}

void DistributedSampler::resume(int64_t epoch, int64_t consumed, std::optional<int> consuming_ranks) {
  const bool blocks = options_.partitioning == Partitioning::blocks;
  TW_EXPECTS(consumed >= 0, "the number of consumed samples must be at least 0, got ", consumed);
  TW_EXPECTS(consumed <= samples_ || options_.uneven == Uneven::pad, consumed,
             " samples were consumed, which is more than the data set has: ", samples_);
  TW_EXPECTS(
      !blocks || consumed == 0 || consuming_ranks.has_value(),
      "Partitioning::blocks can be resumed only on the same number of ranks: pass consuming_ranks, the number of ranks that consumed the samples");
  TW_EXPECTS(!blocks || consumed == 0 || *consuming_ranks == size_, "an epoch with Partitioning::blocks on ", *consuming_ranks,
             " ranks cannot be resumed on ", size_,
             " ranks: the consumed samples are the beginnings of the old blocks, not the beginning of the order. Begin a new epoch, or use "
             "Partitioning::interleaved");
  set_epoch(epoch);
  consumed_ = consumed;
  if (!blocks) end_ = end_of_epoch(consumed);
}

void DistributedSampler::reset(std::optional<size_t> samples) {
  if (samples) samples_ = static_cast<int64_t>(*samples);
  if (!is_set_) {
    set_epoch(epoch_ + 1);
  } else if (samples) {
    resume(epoch_, consumed_, static_cast<int>(size_));  // with an order of the new length
  }
  is_set_ = false;
}

// Positions are dealt in turn through the whole epoch: position i goes to rank i mod size. If counting restarted at each step, rank 0 would get the
// remainder in every step. With blocks, the i-th position of a rank is the i-th sample of its block.
std::vector<int64_t> DistributedSampler::next_share(int64_t global_batch) {
  TW_EXPECTS(epoch_ >= 0, "the sampler has not begun an epoch: call set_epoch() or reset()");
  expect_shareable(global_batch);
  is_set_ = false;
  const int64_t end = global_batch < end_ - consumed_ ? consumed_ + global_batch : std::max(end_, consumed_);
  const int64_t first = consumed_ + (rank_ + size_ - consumed_ % size_) % size_;
  std::vector<int64_t> share;
  for (int64_t position = first; position < end; position += size_) share.push_back(sample_at(position));
  consumed_ = end;
  return share;
}

std::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  TW_EXPECTS(batch_size > 0, "a batch must hold at least one sample");
  const auto most = static_cast<size_t>(divided_up(std::max<int64_t>(samples_, 1), size_));  // no rank has more, so nothing overflows below
  auto share_size = static_cast<int64_t>(std::min(batch_size, most));
  const int64_t left = end_ - consumed_ - share_size * size_;
  if (left > 0 && left < size_ && share_size > 1)
    share_size = (share_size + 1) / 2;  // the remainder would not reach all ranks: make two half batches
  const auto share = next_share(share_size * size_);
  if (share.empty()) return std::nullopt;
  return std::vector<size_t>(share.begin(), share.end());
}

int64_t DistributedSampler::steps(int64_t global_batch) const {
  expect_shareable(global_batch);
  return divided_up(end_of_epoch(0), global_batch);
}

int64_t DistributedSampler::steps_left(int64_t global_batch) const {
  expect_shareable(global_batch);
  return divided_up(std::max<int64_t>(end_ - consumed_, 0), global_batch);
}

size_t DistributedSampler::samples_here() const noexcept {
  return static_cast<size_t>(divided_up(std::max<int64_t>(end_of_epoch(0) - rank_, 0), size_));
}

size_t DistributedSampler::batches(size_t batch_size) const {
  TW_EXPECTS(batch_size > 0, "a batch must hold at least one sample");
  const auto most = static_cast<size_t>(divided_up(end_of_epoch(0), size_));  // rank 0 has the most
  return most / batch_size + (most % batch_size == 0 ? 0 : 1);
}

void DistributedSampler::expect_shareable(int64_t global_batch) const {
  TW_EXPECTS(global_batch > 0, "a batch must hold at least one sample");
  TW_EXPECTS(options_.uneven == Uneven::exact || global_batch % size_ == 0, "a global batch of ", global_batch, " cannot be shared evenly by ", size_,
             " ranks: use a multiple of the number of ranks, or Uneven::exact");
}

// The end of an epoch in which all ranks share the samples from `begin` on.
int64_t DistributedSampler::end_of_epoch(int64_t begin) const noexcept {
  const int64_t left = samples_ - begin;
  if (left <= 0) return begin;
  switch (options_.uneven) {
    case Uneven::drop: return samples_ - left % size_;
    case Uneven::pad: return begin + divided_up(left, size_) * size_;
    case Uneven::exact: break;
  }
  return samples_;
}

int64_t DistributedSampler::sample_at(int64_t position) const {
  int64_t at = position;
  if (options_.partitioning == Partitioning::blocks) {
    const int64_t least = end_ / size_;
    const int64_t begin = rank_ * least + std::min(rank_, end_ % size_);  // the first end_ % size_ blocks hold one more
    at = begin + position / size_;
  }
  return order_[static_cast<size_t>(at % samples_)];
}

}  // namespace tw

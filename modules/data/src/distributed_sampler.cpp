// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/data/distributed_sampler.hpp>

#include <algorithm>
#include <numeric>

namespace tw {

DistributedSampler::DistributedSampler(size_t samples, int size, int rank, const SamplerOptions& options)
    : samples_(samples), size_(static_cast<size_t>(size)), rank_(static_cast<size_t>(rank)), options_(options) {
  TW_EXPECTS(size > 0, "there must be at least one rank, got ", size);
  TW_EXPECTS(rank >= 0 && rank < size, "rank ", rank, " is not one of ", size);
}

void DistributedSampler::set_epoch(int64_t epoch) {
  TW_EXPECTS(epoch >= 0, "epochs are counted from 0, got ", epoch);
  epoch_ = epoch;
  position_ = 0;
  if (options_.shuffle) {
    order_ = random_permutation(static_cast<int64_t>(samples_), options_.seed, static_cast<uint64_t>(epoch));
  } else {
    order_.resize(samples_);
    std::iota(order_.begin(), order_.end(), int64_t{0});
  }
}

void DistributedSampler::reset(std::optional<size_t> samples) {
  samples_ = samples.value_or(samples_);
  set_epoch(epoch_ + 1);
}

std::optional<std::vector<size_t>> DistributedSampler::next(size_t batch_size) {
  TW_EXPECTS(epoch_ >= 0, "the sampler has not begun an epoch: call set_epoch() or reset()");
  TW_EXPECTS(batch_size > 0, "a batch must hold at least one sample");
  std::vector<size_t> indices;
  for (; indices.size() < batch_size && position_ < samples_here(); ++position_) {
    indices.push_back(static_cast<size_t>(order_[position_ * size_ + rank_]));
  }
  if (indices.empty()) return std::nullopt;
  return indices;
}

size_t DistributedSampler::samples_here() const noexcept { return (samples_ + size_ - 1 - rank_) / size_; }

size_t DistributedSampler::batches(size_t batch_size) const {
  TW_EXPECTS(batch_size > 0, "a batch must hold at least one sample");
  const size_t most = (samples_ + size_ - 1) / size_;  // rank 0 has the most
  return (most + batch_size - 1) / batch_size;
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tw {

struct SamplerOptions {
  /// A new order every epoch; otherwise 0, 1, 2, ...
  bool shuffle = true;
  /// The order depends on this and the epoch alone, not on the number of ranks.
  uint64_t seed = 0;
};

/// Deals the samples of an epoch to the ranks: rank r gets every size-th sample of the epoch's order, beginning at the r-th. Together the
/// ranks see each sample exactly once; their counts differ by at most one, and are 0 for some where ranks outnumber samples.
///
/// Also serves as LibTorch's own sampler: `torch::data::make_data_loader(dataset, DistributedSampler(...), 64)`.
class DistributedSampler {
 public:
  using BatchRequestType = std::vector<size_t>;  // the name that torch::data looks for

  /// @param samples of the data set; @param size number of ranks; @param rank 0 to size - 1.
  DistributedSampler(size_t samples, int size, int rank, const SamplerOptions& options = {});

  /// Begins epoch `epoch`.
  void set_epoch(int64_t epoch);
  /// Begins the next epoch; the first call begins epoch 0. Called by torch::data's loaders.
  /// @param samples a new size of the data set.
  void reset(std::optional<size_t> samples = std::nullopt);
  /// At most `batch_size` indices of this rank that come next; nothing at the end of the epoch.
  std::optional<std::vector<size_t>> next(size_t batch_size);

  /// How many samples this rank has in an epoch.
  size_t samples_here() const noexcept;
  /// How many batches of `batch_size` the rank with the most samples needs for an epoch.
  size_t batches(size_t batch_size) const;

 private:
  size_t samples_;
  size_t size_;
  size_t rank_;
  SamplerOptions options_;
  int64_t epoch_ = -1;          // -1: not begun
  std::vector<int64_t> order_;  // of the whole epoch
  size_t position_ = 0;         // how many samples of this rank have been dealt
};

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tw {

/// What becomes of samples that cannot be dealt evenly.
enum class Uneven {
  exact,  ///< every sample once; the ranks' counts differ by at most one, and are 0 for some where ranks outnumber samples
  drop,   ///< the last of the order are left out, so that all ranks have equally many; none at all where ranks outnumber samples
  pad,    ///< the order is continued from its beginning until all ranks have equally many
};

/// Which part of the epoch's order is a rank's.
enum class Dealing {
  interleaved,  ///< every size-th sample, beginning with sample `rank` of the order; can be resumed on any number of ranks
  blocks,       ///< one contiguous part, such as a rank's own files
};

struct SamplerOptions {
  /// A new order every epoch; otherwise 0, 1, 2, ...
  bool shuffle = true;
  /// The order depends on this and the epoch alone, not on the number of ranks.
  uint64_t seed = 0;
  Uneven uneven = Uneven::exact;
  Dealing dealing = Dealing::interleaved;
};

/// Deals the samples of an epoch to the ranks. All ranks deal in step: each call of next_share() or next() deals to all of them, and every rank
/// takes its own part, so that they agree on the position without a message.
///
/// Also a sampler for LibTorch: `torch::data::make_data_loader(dataset, DistributedSampler(...), 64)` has the same number of batches on all ranks.
class DistributedSampler {
 public:
  using BatchRequestType = std::vector<size_t>;  // the name that torch::data looks for

  /// @param samples of the data set; @param size number of ranks; @param rank 0 to size - 1.
  DistributedSampler(size_t samples, int size, int rank, const SamplerOptions& options = {});

  /// Begins epoch `epoch`.
  void set_epoch(int64_t epoch);
  /// Begins epoch `epoch` after its first `consumed` samples, as consumed() counted them. What is left is dealt as if it were an epoch of its own:
  /// under `drop` and `pad` it is what this number of ranks can or cannot share evenly that counts.
  /// @param dealt_by the number of ranks that dealt them; needed for `blocks` only, which can be resumed by as many ranks alone.
  /// @throws ContractError for `blocks` dealt by another or an unknown number of ranks; for more consumed samples than there are (but not
  ///         under `pad`, whose order goes on).
  void resume(int64_t epoch, int64_t consumed, std::optional<int> dealt_by = std::nullopt);
  /// Called by torch::data's loaders whenever they begin to iterate: begins the next epoch, the first time epoch 0. But one that set_epoch() or
  /// resume() began, and of which nothing has been dealt since, stays as it is.
  /// @param samples a new size of the data set.
  void reset(std::optional<size_t> samples = std::nullopt);

  /// This rank's share of the next `global_batch` samples of the epoch, which all ranks deal together. Shares differ by at most one sample,
  /// and so do their sums over an epoch, or over the rest of one after resume(). A share is empty at the end of the epoch, and on some ranks where a
  /// step has fewer samples than ranks.
  /// @param global_batch the same on every rank; under `drop` and `pad` a multiple of the number of ranks.
  std::vector<int64_t> next_share(int64_t global_batch);
  /// The next at most `batch_size` indices of this rank, nothing at the end of the epoch, after equally many calls on all ranks. Where one sample
  /// more or less would decide whether a rank has a last batch, the last two are about half as large, so that each has both. But `exact` cannot deal
  /// evenly what ranks outnumber, nor batches of one sample, nor do shares of a last batch fit LibTorch's `drop_last`: take `drop` or `pad` there.
  std::optional<std::vector<size_t>> next(size_t batch_size);

  int64_t epoch() const noexcept { return epoch_; }  ///< -1 before the first
  /// How many samples of the epoch's order all ranks together have dealt: the position to resume() from.
  int64_t consumed() const noexcept { return consumed_; }
  /// consumed() at the end of the epoch.
  int64_t end() const noexcept { return end_; }
  /// Whether all samples of the epoch have been dealt.
  bool epoch_done() const noexcept { return consumed_ >= end_; }
  /// How many calls of next_share(global_batch) a whole epoch takes; the same on every rank. The same is asked of `global_batch`.
  int64_t steps(int64_t global_batch) const;
  /// How many it takes from here.
  int64_t steps_left(int64_t global_batch) const;

  int size() const noexcept { return static_cast<int>(size_); }
  /// How many samples this rank has in a whole epoch dealt by next().
  size_t samples_here() const noexcept;
  /// How many batches of `batch_size` the rank with the most samples needs for a whole epoch.
  size_t batches(size_t batch_size) const;

 private:
  void expect_shareable(int64_t global_batch) const;
  int64_t end_of_epoch(int64_t begin) const noexcept;
  int64_t sample_at(int64_t position) const;

  int64_t samples_;
  int64_t size_;
  int64_t rank_;
  SamplerOptions options_;
  int64_t epoch_ = -1;          // -1: not begun
  bool told_ = false;           // to begin epoch_, of which nothing has been dealt
  std::vector<int64_t> order_;  // of the whole epoch, without padding
  int64_t consumed_ = 0;
  int64_t end_ = 0;  // consumed_ at the end of the epoch
};

}  // namespace tw

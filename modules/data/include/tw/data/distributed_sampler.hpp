// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tw {

/// What to do with samples that the ranks cannot share evenly.
enum class Uneven {
  exact,  ///< every sample once; the ranks' counts differ by at most one (0 on some ranks if there are more ranks than samples)
  drop,   ///< the last samples are left out, so that all ranks have the same number; no sample is left if there are more ranks than samples
  pad,    ///< the order repeats from its beginning until all ranks have the same number
};

/// Which part of the epoch's order each rank gets.
enum class Partitioning {
  interleaved,  ///< with P ranks, every P-th sample, beginning at position `rank`; can be resumed on any number of ranks
  blocks,       ///< one contiguous part, such as the samples of a rank's own files; can be resumed on the same number of ranks only
};

struct SamplerOptions {
  /// Whether every epoch has a new random order; otherwise the order is 0, 1, 2, ...
  bool shuffle = true;
  /// Seed of the random order. The order depends on seed and epoch only, not on the number of ranks.
  uint64_t seed = 0;
  Uneven uneven = Uneven::exact;
  Partitioning partitioning = Partitioning::interleaved;
};

/// Distributes the samples of an epoch among the ranks. Every rank must make the same calls: each next_share() or next() advances the position in the
/// epoch as if for all ranks, and returns this rank's part. So the ranks agree on the position without communicating.
///
/// It is also a sampler for LibTorch: `torch::data::make_data_loader(dataset, DistributedSampler(...), 64)` has the same number of batches on all
/// ranks; see next() for exceptions.
class DistributedSampler {
 public:
  using BatchRequestType = std::vector<size_t>;  // the name that torch::data looks for

  /// @param samples size of the data set; @param size number of ranks; @param rank 0 to size - 1.
  DistributedSampler(size_t samples, int size, int rank, const SamplerOptions& options = {});

  /// Begins epoch `epoch`.
  void set_epoch(int64_t epoch);
  /// Begins epoch `epoch` after its first `consumed` samples; pass a value that consumed() returned. With `interleaved`, the remaining samples are
  /// distributed like a separate epoch: `drop` and `pad` apply to them with this number of ranks.
  /// @param consuming_ranks the number of ranks that consumed the samples. Needed for `blocks` only, which can be resumed only on the same number of
  /// ranks.
  /// @throws ContractError for `blocks` if `consumed` is not 0 and `consuming_ranks` is missing or another number. @throws ContractError if
  /// `consumed` exceeds the number of samples, except with `pad`, which repeats the order.
  void resume(int64_t epoch, int64_t consumed, std::optional<int> consuming_ranks = std::nullopt);
  /// Begins the next epoch, or epoch 0 the first time. An epoch begun by set_epoch() or resume() stays if no sample of it has been returned yet.
  /// torch::data's loaders call this whenever they begin to iterate.
  /// @param samples the new size of the data set, if it has changed.
  void reset(std::optional<size_t> samples = std::nullopt);

  /// Returns this rank's share of the epoch's next `global_batch` samples. The sizes of the ranks' shares differ by at most one sample. So do the
  /// ranks' totals over an epoch or, after resume(), over the rest of the epoch. A share is empty at the end of the epoch, and on some ranks if a
  /// step has fewer samples than ranks.
  /// @param global_batch the same on every rank; with `drop` and `pad` a multiple of the number of ranks.
  std::vector<int64_t> next_share(int64_t global_batch);
  /// Returns this rank's next indices, at most `batch_size`; nothing at the end of the epoch. All ranks get the same number of batches: if fewer
  /// samples than ranks would remain for the last batch, the last two batches are about half as large, so that every rank has samples in both. With
  /// `exact`, ranks may still get different numbers of batches in three cases: fewer samples than ranks, batches of one sample, and LibTorch's
  /// `drop_last`. Use `drop` or `pad` in these cases.
  std::optional<std::vector<size_t>> next(size_t batch_size);

  int64_t epoch() const noexcept { return epoch_; }  ///< -1 before the first epoch
  /// Number of samples of the epoch that all ranks together have consumed: the position to resume() from.
  int64_t consumed() const noexcept { return consumed_; }
  /// consumed() at the end of the epoch.
  int64_t end() const noexcept { return end_; }
  /// Whether all samples of the epoch have been consumed.
  bool epoch_done() const noexcept { return consumed_ >= end_; }
  /// Number of calls of next_share(global_batch) in a whole epoch; the same on every rank. `global_batch` must be valid for next_share().
  int64_t steps(int64_t global_batch) const;
  /// Number of calls of next_share(global_batch) that remain in this epoch.
  int64_t steps_left(int64_t global_batch) const;

  int size() const noexcept { return static_cast<int>(size_); }
  /// Number of indices that next() returns on this rank in a whole epoch, in all batches together.
  size_t samples_here() const noexcept;
  /// Number of batches of `batch_size` in a whole epoch, for the rank with the most samples.
  size_t batches(size_t batch_size) const;

 private:
  void expect_shareable(int64_t global_batch) const;
  int64_t end_of_epoch(int64_t begin) const noexcept;
  int64_t sample_at(int64_t position) const;

  int64_t samples_;
  int64_t size_;
  int64_t rank_;
  SamplerOptions options_;
  int64_t epoch_ = -1;          // -1: no epoch has begun
  bool is_set_ = false;         // epoch_ was set explicitly and none of its samples has been consumed
  std::vector<int64_t> order_;  // sample indices of the whole epoch, without padding
  int64_t consumed_ = 0;
  int64_t end_ = 0;  // consumed_ at the end of the epoch
};

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/data/dataset.hpp>
#include <tw/data/npy.hpp>
#include <vector>

namespace tw {

struct ShardedDatasetOptions {
  /// Whether to accept NaN and infinity, which are errors otherwise.
  bool allow_non_finite = false;
};

/// Samples spread over pairs of NPY files in one directory: inputs*.npy and targets*.npy with the same text for *, such as inputs_0007.npy and
/// targets_0007.npy, or the single pair inputs.npy and targets.npy. Samples are numbered across the pairs, in the order of the names. The files are
/// memory-mapped, so together they may exceed the machine's memory. Batches have the files' dtypes and row shapes.
class ShardedDataset : public Dataset {
 public:
  /// Reads the headers only. @throws FileError if there is no pair. @throws FileError naming a file that has no partner, is not NPY, differs from the
  /// first pair in dtype or row shape, or differs from its partner in the number of rows.
  explicit ShardedDataset(const std::filesystem::path& directory, const ShardedDatasetOptions& options = {});

  int64_t size() const override { return ends_.back(); }
  /// @throws FileError naming file, offset and row of a sample that holds NaN or infinity, unless allow_non_finite is set.
  Batch batch(std::span<const int64_t> indices) const override;

  /// Number of pairs.
  int64_t shards() const noexcept { return static_cast<int64_t>(inputs_.size()); }
  /// Reads all samples. @throws FileError naming file, offset and row of the first one that holds NaN or infinity, regardless of the options.
  void check_all() const;

 private:
  ShardedDatasetOptions options_;
  std::vector<NpyFile> inputs_;
  std::vector<NpyFile> targets_;
  std::vector<int64_t> ends_;  // index of the first sample after each pair
};

}  // namespace tw

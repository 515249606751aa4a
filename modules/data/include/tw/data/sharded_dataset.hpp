// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/data/dataset.hpp>
#include <tw/data/npy.hpp>
#include <vector>

namespace tw {

struct ShardedDatasetOptions {
  /// NaN and infinity are errors otherwise.
  bool allow_non_finite = false;
};

/// Samples spread over pairs of NPY files in one directory: inputs*.npy and targets*.npy with the same text for *, such as inputs_0007.npy and
/// targets_0007.npy, or a single pair without any. Samples are numbered through the pairs in the order of their names. The files are mapped
/// into memory, so that all together may be larger than that. A batch has their dtypes and row shapes.
class ShardedDataset : public Dataset {
 public:
  /// Reads the headers only. @throws FileError naming the file that does not fit: no pair at all, one without its partner, not NPY, another dtype
  /// or row shape than the first pair's, more rows than its partner.
  explicit ShardedDataset(const std::filesystem::path& directory, const ShardedDatasetOptions& options = {});

  int64_t size() const override { return ends_.back(); }
  /// @throws FileError naming file, offset and row of a sample that holds NaN or infinity.
  Batch batch(std::span<const int64_t> indices) const override;

  /// Number of pairs.
  int64_t shards() const noexcept { return static_cast<int64_t>(inputs_.size()); }
  /// Reads everything. @throws FileError naming file, offset and row of the first sample that holds NaN or infinity, regardless of the options.
  void check_all() const;

 private:
  ShardedDatasetOptions options_;
  std::vector<NpyFile> inputs_;
  std::vector<NpyFile> targets_;
  std::vector<int64_t> ends_;  // the number of the first sample after each pair
};

}  // namespace tw

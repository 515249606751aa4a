// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tw/state/index.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/safetensors.hpp>
#include <unordered_map>
#include <vector>

namespace tw {

/// The data files of one checkpoint. Each is opened when it is first read.
class CheckpointFiles {
 public:
  explicit CheckpointFiles(std::filesystem::path step_directory);
  /// Fills `shards` according to `plan`, this rank's part of the result of plan_load(). Local. @throws FileError if a file is missing or malformed.
  /// Checks no checksums.
  void fill(const std::vector<NamedShard>& shards, const std::vector<ShardReads>& plan);

 private:
  const SafetensorsFile& file(int64_t rank);
  void combine(const NamedShard& shard, const ShardReads& reads);

  std::filesystem::path directory_;
  std::map<int64_t, SafetensorsFile> open_;
};

/// One checkpoint, read by one process. Not collective.
class Checkpoint {
 public:
  /// @param directory the folder of a checkpoint, or a folder of several checkpoints: then the one of the latest step is opened.
  /// @throws FileError if there is none, or its index is damaged.
  static Checkpoint open(const std::filesystem::path& directory);

  /// The checkpoint's own folder, as an absolute path.
  const std::filesystem::path& directory() const& noexcept { return directory_; }
  std::filesystem::path directory() && noexcept { return std::move(directory_); }
  const CheckpointIndex& index() const& noexcept { return index_; }
  CheckpointIndex index() && noexcept { return std::move(index_); }
  /// Returns the whole tensor with this name or alias: assembled from slices, or the sum or mean over the ranks that saved it, see OnReshard.
  /// Thread-safe. Checks no checksums: see verify().
  /// @throws ContractError for an unknown name, or a tensor with OnReshard::drop, which each rank saved for itself; FileError if a data file is
  /// missing or malformed.
  at::Tensor read(const std::string& name) const;
  /// The same for a part of the tensor. @throws ContractError also if the part does not lie in the tensor.
  at::Tensor read(const std::string& name, const Box& part) const;
  /// Checks the sizes and checksums of the data files. @return one line for each file that is missing or damaged.
  std::vector<std::string> verify() const;

 private:
  Checkpoint(std::filesystem::path directory, CheckpointIndex index);
  const StoredTensor& find(const std::string& name) const;

  std::filesystem::path directory_;
  CheckpointIndex index_;
  std::unordered_map<std::string, size_t> places_;  // index of each tensor, by names and aliases
  struct Open;
  std::shared_ptr<Open> open_;  // data files stay open, shared by copies
};

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include "finite.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/data/sharded_dataset.hpp>

namespace tw {
namespace {

namespace fs = std::filesystem;

// The files `prefix`*.npy of a directory, by the text that * matches.
std::map<std::string, fs::path> find_shards(const fs::path& directory, const std::string& prefix) {
  const std::string ending = ".npy";
  std::map<std::string, fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.size() < prefix.size() + ending.size() || !name.starts_with(prefix) || !name.ends_with(ending)) continue;
    found[name.substr(prefix.size(), name.size() - prefix.size() - ending.size())] = entry.path();
  }
  return found;
}

void expect_partners(const std::map<std::string, fs::path>& files, const std::map<std::string, fs::path>& partners, const std::string& prefix) {
  for (const auto& [key, path] : files) {
    if (!partners.contains(key)) throw FileError(path, 0, concat("the file has no matching file ", prefix, key, ".npy"));
  }
}

void expect_like(const NpyFile& file, const NpyFile& first) {
  if (file.dtype() == first.dtype() && file.row_shape() == first.row_shape()) return;
  throw FileError(file.path(), 0,
                  concat("the file holds rows of ", c10::toString(file.dtype()), " ", file.row_shape(), ", but ", first.path().filename().string(),
                         " holds rows of ", c10::toString(first.dtype()), " ", first.row_shape()));
}

void expect_finite(const NpyFile& file, int64_t row, const void* values) {
  const int64_t elements = file.row_bytes() / static_cast<int64_t>(c10::elementSize(file.dtype()));
  if (!all_finite(values, elements, file.dtype())) throw FileError(file.path(), file.offset_of(row), concat("row ", row, " holds NaN or infinity"));
}

at::Tensor empty_rows(const NpyFile& like, size_t rows) {
  std::vector<int64_t> shape = like.row_shape().vec();
  shape.insert(shape.begin(), static_cast<int64_t>(rows));
  return at::empty(shape, at::TensorOptions().dtype(like.dtype()));
}

}  // namespace

ShardedDataset::ShardedDataset(const fs::path& directory, const ShardedDatasetOptions& options) : options_(options) {
  if (!fs::is_directory(directory)) throw FileError(directory, 0, "this is not a directory");
  const auto inputs = find_shards(directory, "inputs");
  const auto targets = find_shards(directory, "targets");
  if (inputs.empty() && targets.empty()) throw FileError(directory, 0, "the directory holds no pair of files inputs*.npy and targets*.npy");
  expect_partners(inputs, targets, "targets");
  expect_partners(targets, inputs, "inputs");
  int64_t samples = 0;
  for (const auto& [key, path] : inputs) {
    const NpyFile& input = inputs_.emplace_back(path);
    const NpyFile& target = targets_.emplace_back(targets.at(key));
    expect_like(input, inputs_.front());
    expect_like(target, targets_.front());
    if (input.rows() != target.rows()) {
      throw FileError(target.path(), 0, concat("the file holds ", target.rows(), " rows, but ", path.filename().string(), " holds ", input.rows()));
    }
    samples += input.rows();
    ends_.push_back(samples);
  }
}

Batch ShardedDataset::batch(std::span<const int64_t> indices) const {
  Batch batch{empty_rows(inputs_.front(), indices.size()), empty_rows(targets_.front(), indices.size())};
  auto* to_inputs = static_cast<char*>(batch.inputs.data_ptr());
  auto* to_targets = static_cast<char*>(batch.targets.data_ptr());
  const auto copy = [&](const NpyFile& file, int64_t row, char*& to) {
    file.copy_row(row, to);
    if (!options_.allow_non_finite) expect_finite(file, row, to);
    to += file.row_bytes();
  };
  for (const int64_t index : indices) {
    TW_EXPECTS(index >= 0 && index < size(), "there is no sample ", index, "; the number of samples is ", size());
    const auto shard = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    const int64_t row = index - (shard == 0 ? 0 : ends_[shard - 1]);
    copy(inputs_[shard], row, to_inputs);
    copy(targets_[shard], row, to_targets);
  }
  return batch;
}

void ShardedDataset::check_all() const {
  for (const auto* files : {&inputs_, &targets_}) {
    for (const NpyFile& file : *files) {
      std::vector<char> values(static_cast<size_t>(file.row_bytes()));
      for (int64_t row = 0; row < file.rows(); ++row) {
        file.copy_row(row, values.data());
        expect_finite(file, row, values.data());
      }
    }
  }
}

}  // namespace tw

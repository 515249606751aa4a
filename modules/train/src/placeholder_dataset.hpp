// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/ops/empty.h>

#include <tw/data/dataset.hpp>

namespace tw::train {

/// A data set of `size` empty samples, for ranks that need only the number of samples.
class PlaceholderDataset : public Dataset {
 public:
  explicit PlaceholderDataset(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  Batch batch(std::span<const int64_t> indices) const override {
    const at::Tensor nothing = at::empty({static_cast<int64_t>(indices.size()), 0});
    return {nothing, nothing};
  }

 private:
  int64_t size_;
};

}  // namespace tw::train

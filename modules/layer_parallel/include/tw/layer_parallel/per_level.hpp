// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <initializer_list>
#include <vector>

namespace tw::layer_parallel {

/// A setting that may differ between levels: `4`, or `{16, 4}` for the finest level and the next. The last value holds for all levels below.
template <class T>
class PerLevel {
 public:
  PerLevel(T value) : values_{value} {}  // NOLINT(google-explicit-constructor): options read `.coarsening = 4`
  PerLevel(std::initializer_list<T> values) : values_(values) {}
  explicit PerLevel(std::vector<T> values) : values_(std::move(values)) {}

  /// @param level 0 is the finest.
  const T& at(int level) const { return static_cast<size_t>(level) < values_.size() ? values_[static_cast<size_t>(level)] : values_.back(); }
  /// As they were given; empty is a mistake that options refuse.
  const std::vector<T>& values() const noexcept { return values_; }

 private:
  std::vector<T> values_;
};

}  // namespace tw::layer_parallel

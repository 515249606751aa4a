// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <tw/base/contract.hpp>
#include <tw/base/option.hpp>
#include <vector>

namespace tw::layer_parallel {

/// A setting that may differ between the levels of a multigrid: `4` for all levels, or `{16, 4}` for the finest level and the next. The last value
/// also holds for all coarser levels.
template <class T>
class PerLevel {
 public:
  /// Maximum number of values. After this many coarsenings, at most every 65,536th point is left.
  static constexpr size_t most = 16;

  PerLevel(T value) : PerLevel(std::span<const T>(&value, 1)) {}  // NOLINT(google-explicit-constructor): options read `.coarsening = 4`
  PerLevel(std::initializer_list<T> values) : PerLevel(std::span<const T>(values.begin(), values.size())) {}
  explicit PerLevel(const std::vector<T>& values) : PerLevel(std::span<const T>(values)) {}

  /// @param level 0 is the finest.
  const T& at(int level) const { return values_[std::min(static_cast<size_t>(level), size_ - 1)]; }
  /// The values as passed. They may be empty; validate() of the options struct then throws.
  std::span<const T> values() const noexcept { return {values_.data(), size_}; }

 private:
  explicit PerLevel(std::span<const T> values) : size_(values.size()) {
    TW_EXPECTS(size_ <= most, "a setting may have at most ", most, " values, one per level, got ", size_);
    std::ranges::copy(values, values_.begin());
  }

  std::array<T, most> values_{};  // not a vector: GCC 12 warns of the clean-up of options in braces that hold one
  size_t size_;
};

/// Passes the values to `visitor` as a list.
template <class T>
void visit_field(OptionVisitor& visitor, std::string_view key, PerLevel<T>& values, Bounds bounds, About about) {
  std::vector<T> list(values.values().begin(), values.values().end());
  visitor.field(key, list, bounds, std::move(about));
  values = PerLevel<T>(list);
}

}  // namespace tw::layer_parallel

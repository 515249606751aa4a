// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <tw/base/element.hpp>
#include <vector>

namespace tw {

/// A tensor without its values: what planning needs to know, and what ranks must agree on.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  c10::ScalarType dtype = c10::ScalarType::Float;

  /// The number of elements.
  int64_t numel() const noexcept;
  /// Such as "conv1.weight float32 [20, 1, 5, 5]".
  std::string describe() const;

  bool operator==(const TensorSpec&) const = default;
};

/// The description of each: what ranks compare.
std::vector<std::string> lines_of(const std::vector<TensorSpec>& specs);

/// @throws ContractError for dtypes that cannot travel between ranks (quantised ones, float8 and the like).
ElementType element_type(c10::ScalarType dtype);
/// The inverse of element_type().
c10::ScalarType dtype_of(ElementType type) noexcept;

/// "float32", "float64", "int64", "bool" and so on.
std::string dtype_name(c10::ScalarType dtype);

/// "[20, 1, 5, 5]"; "[]" for a 0-dimensional tensor.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <tw/base/element.hpp>
#include <vector>

namespace tw {

/// A tensor's name, shape and dtype, without its values: what planning needs, and what ranks must agree on.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  c10::ScalarType dtype = c10::ScalarType::Float;

  /// The number of elements.
  int64_t numel() const noexcept;
  /// A description such as "conv1.weight float32 [20, 1, 5, 5]".
  std::string describe() const;

  bool operator==(const TensorSpec&) const = default;
};

/// describe() of each spec, for comparison between ranks.
std::vector<std::string> lines_of(const std::vector<TensorSpec>& specs);

/// @throws ContractError for dtypes that cannot be sent between ranks, such as quantized ones and float8.
ElementType element_type(c10::ScalarType dtype);
/// The inverse of element_type().
c10::ScalarType dtype_of(ElementType type) noexcept;

/// "float32", "float64", "int64", "bool" and so on.
std::string dtype_name(c10::ScalarType dtype);

/// "[20, 1, 5, 5]"; "[]" for a 0-dimensional tensor.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace tw

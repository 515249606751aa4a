// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/tensor_spec.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw {

int64_t TensorSpec::numel() const noexcept { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()); }

std::string TensorSpec::describe() const { return name + " " + dtype_name(dtype) + " " + shape_text(shape); }

std::vector<std::string> lines_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> lines;
  for (const TensorSpec& spec : specs) lines.push_back(spec.describe());
  return lines;
}

namespace {

// By ElementType.
constexpr std::array<c10::ScalarType, element_types> dtype_of_type{
    c10::ScalarType::Bool,  c10::ScalarType::Byte,   c10::ScalarType::Char,         c10::ScalarType::Short,
    c10::ScalarType::Int,   c10::ScalarType::Long,   c10::ScalarType::Half,         c10::ScalarType::BFloat16,
    c10::ScalarType::Float, c10::ScalarType::Double, c10::ScalarType::ComplexFloat, c10::ScalarType::ComplexDouble};

std::optional<ElementType> find_element_type(c10::ScalarType dtype) {
  const auto* found = std::find(dtype_of_type.begin(), dtype_of_type.end(), dtype);
  if (found == dtype_of_type.end()) return std::nullopt;
  return static_cast<ElementType>(found - dtype_of_type.begin());
}

}  // namespace

ElementType element_type(c10::ScalarType dtype) {
  const auto type = find_element_type(dtype);
  TW_EXPECTS(type.has_value(), "a tensor of ", c10::toString(dtype), " cannot be sent between ranks; convert it first");
  return *type;
}

c10::ScalarType dtype_of(ElementType type) noexcept { return dtype_of_type[static_cast<size_t>(type)]; }

std::string dtype_name(c10::ScalarType dtype) {
  const auto type = find_element_type(dtype);
  return type ? std::string(name_of(*type)) : c10::toString(dtype);
}

std::string shape_text(const std::vector<int64_t>& shape) { return '[' + joined(shape) + ']'; }

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/tensor_spec.hpp>

#include <functional>
#include <numeric>
#include <optional>
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

std::optional<ElementType> find_element_type(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Bool: return ElementType::boolean;
    case c10::ScalarType::Byte: return ElementType::uint8;
    case c10::ScalarType::Char: return ElementType::int8;
    case c10::ScalarType::Short: return ElementType::int16;
    case c10::ScalarType::Int: return ElementType::int32;
    case c10::ScalarType::Long: return ElementType::int64;
    case c10::ScalarType::Half: return ElementType::float16;
    case c10::ScalarType::BFloat16: return ElementType::bfloat16;
    case c10::ScalarType::Float: return ElementType::float32;
    case c10::ScalarType::Double: return ElementType::float64;
    case c10::ScalarType::ComplexFloat: return ElementType::complex64;
    case c10::ScalarType::ComplexDouble: return ElementType::complex128;
    default: return std::nullopt;
  }
}

}  // namespace

ElementType element_type(c10::ScalarType dtype) {
  const auto type = find_element_type(dtype);
  TW_EXPECTS(type.has_value(), "a tensor of ", c10::toString(dtype), " cannot travel between ranks; convert it first");
  return *type;
}

std::string dtype_name(c10::ScalarType dtype) {
  const auto type = find_element_type(dtype);
  return type ? std::string(name_of(*type)) : c10::toString(dtype);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace tw

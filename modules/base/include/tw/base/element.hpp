// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace tw {

/// The element types of messages, shared memory and tensors.
enum class ElementType : uint8_t { boolean, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128 };

inline constexpr int element_types = 12;

/// Bytes of one element.
int64_t element_bytes(ElementType type) noexcept;
/// "bool", "uint8", ..., "complex128".
std::string_view name_of(ElementType type) noexcept;

/// Element-wise reductions over ranks: in rank order inside shared memory of hosts or devices, otherwise in an unspecified order. Integers wrap
/// around on overflow. min and max propagate NaN. float16 and bfloat16 are computed in float32, except by NCCL. They are rounded once in shared
/// memory and by MPI's own collectives; algorithms over messages round each partial result.
enum class ReduceOp : uint8_t { sum, average, min, max, product, logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor };

inline constexpr int reduce_ops = 11;

/// "sum", "average", ...
std::string_view name_of(ReduceOp op) noexcept;

/// Why `op` is undefined for `type`, or what to use instead, such as "complex numbers have no order"; empty if `op` is defined.
/// Defined are: sum and product for all numbers; min and max for bool and all numbers except complex ones; average for floating-point and complex
/// numbers; logical operations for integers and bool (the result is 0 or 1); bitwise operations for integers and bool.
std::string_view why_undefined(ReduceOp op, ElementType type) noexcept;

}  // namespace tw

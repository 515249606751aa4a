// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <tw/base/element.hpp>

namespace tw::shared_memory {

/// outputs[k][i] = inputs[0][i] op inputs[1][i] op ... for `count` elements, in the order of `inputs`. `average` divides by the number of inputs. All
/// outputs hold the same bits.
/// An output may be one of the inputs; other overlaps are not allowed. float16 and bfloat16 are reduced in float32 and rounded once. Uses the
/// processor's vector instructions; see <tw/base/vector_clones.hpp>.
/// @param inputs at least one. @param outputs at least one.
/// `op` must be defined for `type`; see why_undefined().
void reduce(ReduceOp op, ElementType type, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, int64_t count);

}  // namespace tw::shared_memory

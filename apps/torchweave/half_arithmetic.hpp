// SPDX-License-Identifier: Apache-2.0
// Whether a processor has instructions for half precision. Without them, LibTorch converts to float32 and back, which is several times slower than
// float32.
#pragma once
#include <string>
#include <tw/train/precision.hpp>

namespace tw::tool {

struct HalfArithmetic {
  std::string bfloat16 = {};  ///< the instructions, such as "avx512_bf16"; empty: there are none
  std::string float16 = {};
};

/// @param cpuinfo the content of /proc/cpuinfo
HalfArithmetic half_arithmetic_in(const std::string& cpuinfo);
/// The instructions of this machine's processor.
HalfArithmetic half_arithmetic();

/// For `doctor`: "bfloat16 by avx512_bf16; no instructions for float16".
std::string describe(const HalfArithmetic& processor);

/// A warning if `compute` is slow on a processor; empty if it is not.
std::string why_slow(ComputeType compute, const HalfArithmetic& processor);
/// The same for this machine's processor.
std::string why_slow(ComputeType compute);

}  // namespace tw::tool

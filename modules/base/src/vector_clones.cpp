// SPDX-License-Identifier: Apache-2.0
#include <tw/base/vector_clones.hpp>

namespace tw {

// The loader checks the same levels in the same order.
std::string_view vector_instructions() noexcept {
#ifdef TW_HAS_VECTOR_CLONES
  if (__builtin_cpu_supports("x86-64-v4")) return "AVX-512 (x86-64-v4)";
  if (__builtin_cpu_supports("x86-64-v3")) return "AVX2 (x86-64-v3)";
  return "SSE2 (x86-64)";
#else
  return "the compiler's default (this build has only one copy of each loop)";
#endif
}

}  // namespace tw

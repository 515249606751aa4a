// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

/// Compiles a function once for each generation of x86-64 processors; the dynamic loader chooses one copy when the program starts. The function must
/// contain its loops or inline them, because functions that it calls are not cloned. It must not be a template, which clang rejects, but may be a
/// static member of one. Sanitizers are not ready when the loader chooses, so sanitizer builds have only one copy.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define TW_VECTOR_CLONES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TW_VECTOR_CLONES
#endif
#endif
#ifndef TW_VECTOR_CLONES
#define TW_HAS_VECTOR_CLONES 1
#define TW_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif

namespace tw {

/// The vector instructions of the copies that are chosen on this processor, such as "AVX-512 (x86-64-v4)".
std::string_view vector_instructions() noexcept;

}  // namespace tw

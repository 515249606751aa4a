// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

/// Compiles a function once for each generation of x86-64 processors; the dynamic loader chooses when the program starts. The function contains its
/// loops itself or inlines them: a function that it calls is not cloned. It is no template (clang
/// refuses that), but may be a static member of one. Sanitizers cannot run that early, so their builds have one copy only.
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

/// The vector instructions of the copies that this processor runs, such as "AVX-512 (x86-64-v4)".
std::string_view vector_instructions() noexcept;

}  // namespace tw

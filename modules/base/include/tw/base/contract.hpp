// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::detail {

[[noreturn]] void throw_contract_error(const char* condition, const char* file, int line, const std::string& message);
[[noreturn]] void throw_broken_invariant(const char* condition, const char* file, int line);

}  // namespace tw::detail

/// Checks a precondition. If `condition` is false, throws ContractError with the rank, the source location and the concatenated message parts.
#define TW_EXPECTS(condition, ...)                     \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::tw::detail::throw_contract_error(#condition, __FILE__, __LINE__, ::tw::concat(__VA_ARGS__)))

/// Checks an internal invariant. If it is broken, throws ContractError. It does not abort, because the host process may have to continue.
#define TW_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::tw::detail::throw_broken_invariant(#condition, __FILE__, __LINE__))

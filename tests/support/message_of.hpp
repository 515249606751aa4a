// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <string>

namespace tw::testing {

/// The message of the exception that `call` throws; "nothing thrown" if none. An exception of another type than `Expected` propagates, and the test
/// fails.
template <class Expected = std::exception, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace tw::testing

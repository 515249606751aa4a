// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <string>

namespace tw::testing {

/// What the exception says that `call` throws; "nothing thrown" where it throws none. One that is no `Expected` goes on its way, and the test fails.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace tw::pipeline {

/// The message of an exception, without the stack of LibTorch.
inline std::string text_of(const std::exception& problem) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&problem);
  return of_torch != nullptr ? of_torch->what_without_backtrace() : problem.what();
}

}  // namespace tw::pipeline

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/util/Exception.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw {

/// Returns the result of `make`. If a device's memory is full meanwhile, the error states what it was for, and what would help.
/// @param describe returns "bucket 2 of 5, of 25 MiB: shard the gradients": what was requested, and what to try
/// @throws Error
template <class Make, class Describe>
auto in_device_memory(Make make, Describe describe) {
  try {
    return make();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(concat("a device's memory is full: ", describe(), ". LibTorch says: ", error.what_without_backtrace()));
  }
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/util/Exception.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw {

/// Returns the result of `make`.
/// @param describe returns what `make` requests and what to try, such as "bucket 2 of 5, of 25 MiB: shard the gradients"
/// @throws Error with the text of `describe` if a device runs out of memory during the call
template <class Make, class Describe>
auto in_device_memory(Make make, Describe describe) {
  try {
    return make();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(concat("a device's memory is full: ", describe(), ". LibTorch: ", error.what_without_backtrace()));
  }
}

}  // namespace tw

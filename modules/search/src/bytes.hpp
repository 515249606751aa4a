// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tuple>
#include <tw/base/bytes.hpp>
#include <tw/evolution/individual.hpp>

namespace tw {

template <>
struct Fields<search::Individual> {
  using I = search::Individual;
  static constexpr auto all =
      std::tuple(&I::trial, &I::values, &I::loss, &I::objectives, &I::violation, &I::state, &I::tag, &I::worker, &I::island, &I::moves, &I::seconds);
};

namespace search {
using tw::put;  // so that overload resolution finds these and those of messages
}

}  // namespace tw

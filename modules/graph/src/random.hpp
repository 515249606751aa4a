// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers, and what the interpreter draws in their place.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tw/graph/draws.hpp>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::graph {

bool draws(const Node& node);

/// Whether draw() knows it.
bool can_draw(const std::string& op);

/// Whether the operator is made of others, which draw in its place: it is recorded as those.
bool is_made_of_others(const c10::OperatorHandle& op);

/// Of a pass.
struct Numbers {
  uint64_t seed = 0;                   ///< of the pass and the operator
  int64_t first = 0;                   ///< row of the whole batch
  int64_t rows = 1;                    ///< that are computed
  std::optional<RowPlace> place = {};  ///< of the rows in what is drawn; none: all rows have the same numbers
  bool middle = false;                 ///< the middle of the range in place of each number
};

/// Does what operator `op` does, with numbers that depend on seed and row alone. @param arguments of the operator.
/// @return its result
at::Tensor draw(const std::string& op, const std::vector<c10::IValue>& arguments, const Numbers& numbers);

}  // namespace tw::graph

// SPDX-License-Identifier: Apache-2.0
// Operators that draw random numbers, and their reproducible replacements for the interpreter.
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

/// Whether draw() supports it.
bool can_draw(const std::string& op);

/// Whether the operator is a composite that is recorded by its parts, since those draw.
bool is_made_of_others(const c10::OperatorHandle& op);

/// Random numbers of an operator in a pass.
struct Numbers {
  uint64_t seed = 0;                   ///< of the pass and the operator
  int64_t first = 0;                   ///< index of the first row in the whole batch
  int64_t rows = 1;                    ///< number of rows computed
  std::optional<RowPlace> place = {};  ///< of the rows in the drawn tensor; none: all rows have the same numbers
  bool middle = false;                 ///< use the middle of the range for every number
};

/// Replaces operator `op`, with numbers that depend only on seed and row. @param arguments of the operator.
/// @return its result
at::Tensor draw(const std::string& op, const std::vector<c10::IValue>& arguments, const Numbers& numbers);

}  // namespace tw::graph

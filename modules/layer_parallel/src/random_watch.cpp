// SPDX-License-Identifier: Apache-2.0
#include "random_watch.hpp"

#include <tw/graph/draws.hpp>

namespace tw::layer_parallel {

void RandomWatch::call(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack& stack) {
  if (drawn_by_.empty() && op.hasTag(at::Tag::nondeterministic_seeded)) {
    if (graph::draws(op, torch::jit::last(stack, op.schema().arguments().size()).vec())) drawn_by_ = op.operator_name().name;
  }
  execute(op, stack);
}

}  // namespace tw::layer_parallel

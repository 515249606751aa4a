// SPDX-License-Identifier: Apache-2.0
// What a step has LibTorch do, to be compared with what another layer's or a later one does.
#pragma once
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <tw/layer_parallel/propagator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The operators that a step calls, with their arguments. Tensors are known by where they come from: inputs and results by their number, all others,
/// such as members that are no parameters, by their values.
class Footprint {
 public:
  /// Of what `run` calls on this thread, and gives. @param inputs equal numbers stand for each other in another footprint.
  static Footprint of(const std::vector<at::Tensor>& inputs, const std::function<State()>& run);

  /// The first operator that gave a number, which a branch may depend on, such as "aten::item"; empty: none did.
  const std::string& reads() const noexcept { return reads_; }
  /// What is otherwise in `later`; empty: nothing.
  std::string difference(const Footprint& later) const;

 private:
  friend class Listener;

  struct Call {
    std::string name;
    std::vector<c10::IValue> arguments = {};
  };
  std::vector<Call> calls_;
  std::string reads_;
};

}  // namespace tw::layer_parallel

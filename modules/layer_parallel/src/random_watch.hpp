// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/graph/operator_listener.hpp>

namespace tw::layer_parallel {

/// Detects operators that draw random numbers on this thread while it lives.
class RandomWatch final : public graph::OperatorListener {
 public:
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override;

  /// The first operator that drew random numbers; empty: none did.
  const std::string& drawn_by() const noexcept { return drawn_by_; }

 private:
  std::string drawn_by_;
};

}  // namespace tw::layer_parallel

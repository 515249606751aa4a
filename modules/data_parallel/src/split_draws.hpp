// SPDX-License-Identifier: Apache-2.0
// The draws that SplitDrawsCheck compares.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <tw/graph/operator_listener.hpp>
#include <vector>

namespace tw {

/// An operator's call that draws random numbers for the elements of a tensor.
struct Draw {
  std::string op;
  std::vector<int64_t> shape;  ///< shape of the tensor
  std::vector<double> values;  ///< some elements, then the mean magnitude
  double tolerance = 0;        ///< largest difference between equal values, relative to their magnitude or the mean one, whichever is larger
  uint64_t generator = 0;      ///< hash of the generator's state before the call; in a captured graph, the seed

  static constexpr auto fields = std::tuple(&Draw::op, &Draw::shape, &Draw::values, &Draw::tolerance, &Draw::generator);
};

/// Records draws on this thread during its lifetime, except for tensors whose values it cannot read.
class SplitDraws final : public graph::OperatorListener {
 public:
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override;
  void draw(const c10::OperatorHandle& op, const torch::jit::Stack& arguments, uint64_t seed) override;

  /// While paused, it records nothing.
  void pause(bool paused) noexcept { paused_ = paused; }
  const std::vector<Draw>& draws() const noexcept { return draws_; }

 private:
  /// @param generator of the tensor's numbers, as in Draw
  void add(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments, const std::function<uint64_t(const at::Tensor&)>& generator);

  bool paused_ = false;
  std::vector<Draw> draws_;
};

/// Finds the first draw that ranks make with generators in the same state, but for different tensors. Generators in different states draw different
/// numbers, as while a SplitRandom exists. Pure. @param of_ranks draws of each rank; at least one rank. @return an error text; empty: no such draw
std::string problem_of(const std::vector<std::vector<Draw>>& of_ranks);

}  // namespace tw

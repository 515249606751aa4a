// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tw/base/element.hpp>
#include <tw/base/option.hpp>

namespace tw::parameter_server {

/// The type of a rule's state for values of `type`: float32 for 16-bit types, in which sums and squares would overflow or vanish; else the same.
constexpr ElementType state_type(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16 ? ElementType::float32 : type;
}

/// Some consecutive elements of a shard, on which a rule works: a few thousand, so that others reach the rest of the shard meanwhile.
struct Stretch {
  std::byte* values = nullptr;             ///< to be changed
  std::span<std::byte* const> state = {};  ///< by slot of the rule, of state_type(type); zeros at first; to be changed
  const std::byte* pushed = nullptr;
  int64_t count = 0;                        ///< elements of each
  int64_t updates = 0;                      ///< how often this rule has worked on them before
  ElementType type = ElementType::float32;  ///< of values and of what is pushed; floating point
};

/// The change that a push makes to the values on the servers, element by element. Only one caller at a time works on a stretch, in any thread and
/// process of the server's node; stretches are processed in any order.
struct Rule {
  std::string name;
  std::string settings = {};  ///< numbers that must be the same on all ranks, as text
  int slots = 0;              ///< state numbers per value, see state_type()
  /// An exception that it throws is passed on to the caller of the push. It should then have changed nothing.
  std::function<void(const Stretch&)> apply;
};

namespace rules {

/// x = 0, whatever is pushed.
Rule zero();
/// x = g, what is pushed.
Rule copy();
/// x += g
Rule add();
/// x = the mean of `count` pushes, when the last of them has come, and then of the next ones; summed in float32 or float64. @throws ContractError
/// unless count is at least 1
Rule mean(int count);

struct MomentumOptions {
  double lr = 0.01;       ///< positive
  double momentum = 0.9;  ///< at least 0, below 1
  bool nesterov = false;
};
void visit(MomentumOptions& options, OptionVisitor& visitor);
/// m = momentum m + g,  x -= lr (nesterov ? g + momentum m : m), as torch::optim::SGD has it. Pushed are gradients g.
/// @throws ContractError naming a wrong option; so do the following
Rule momentum(const MomentumOptions& options = {});

struct AdagradOptions {
  double lr = 0.01;        ///< positive
  double epsilon = 1e-10;  ///< at least 0
};
void visit(AdagradOptions& options, OptionVisitor& visitor);
/// s += g^2,  x -= lr g / (sqrt(s) + epsilon). Duchi, Hazan & Singer 2011; what Downpour was published with.
Rule adagrad(const AdagradOptions& options = {});

struct AdamOptions {
  double lr = 1e-3;       ///< positive
  double beta1 = 0.9;     ///< at least 0, below 1
  double beta2 = 0.999;   ///< at least 0, below 1
  double epsilon = 1e-8;  ///< at least 0
};
void visit(AdamOptions& options, OptionVisitor& visitor);
/// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,  x -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon), t the updates
/// of x, this one included. Kingma & Ba 2015, Algorithm 1.
Rule adam(const AdamOptions& options = {});

}  // namespace rules
}  // namespace tw::parameter_server

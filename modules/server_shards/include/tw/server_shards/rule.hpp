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

/// The type of a rule's state for values of `type`: float32 if `type` has 16 bits, otherwise `type` itself. In 16 bits, sums and squares would
/// overflow or underflow.
constexpr ElementType state_type(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16 ? ElementType::float32 : type;
}

/// Consecutive elements of a shard to which a rule is applied at once: at most Shard::chunk_bytes, so that other callers can use the rest of the
/// shard meanwhile.
struct Chunk {
  std::byte* values = nullptr;              ///< values on the server; the rule changes them
  std::span<std::byte* const> state = {};   ///< one array per slot of the rule, of state_type(type); initially zero; the rule changes them
  const std::byte* pushed = nullptr;        ///< the pushed elements, one for each value
  int64_t count = 0;                        ///< number of elements
  int64_t updates = 0;                      ///< number of earlier updates of these elements by this rule
  ElementType type = ElementType::float32;  ///< type of `values` and `pushed`; floating point
};

/// The change that a push makes to the values on the servers, element by element. A rule runs in any thread and process of the server's node, but
/// each chunk is used by only one caller at a time. Chunks are processed in any order.
struct Rule {
  std::string name;
  std::string settings = {};  ///< settings that must be the same on all ranks, as text
  int slots = 0;              ///< number of state values per element, of state_type()
  /// Updates a chunk. An exception propagates to the caller of the push. A function that throws should leave the chunk unchanged.
  std::function<void(const Chunk&)> apply;
};

namespace rules {

/// x = 0, for any g. In all rules, x is a value on the server and g is the pushed element.
Rule zero();
/// x = g
Rule copy();
/// x += g
Rule add();
/// Each time `count` pushes have arrived, x = their mean; until then x stays as it is. Sums are computed in float32 or float64.
/// @throws ContractError unless count is at least 1
Rule mean(int count);

struct MomentumOptions {
  double lr = 0.01;       ///< positive
  double momentum = 0.9;  ///< at least 0, below 1
  bool nesterov = false;
};
void visit(MomentumOptions& options, OptionVisitor& visitor);
/// As torch::optim::SGD with gradients g:
///
///   m = momentum * m + g
///   x -= lr * (nesterov ? g + momentum * m : m)
///
/// @throws ContractError naming an option that is out of bounds; adagrad() and adam() throw it, too
Rule momentum(const MomentumOptions& options = {});

struct AdagradOptions {
  double lr = 0.01;        ///< positive
  double epsilon = 1e-10;  ///< at least 0
};
void visit(AdagradOptions& options, OptionVisitor& visitor);
/// Duchi, Hazan & Singer 2011; Downpour SGD was published with this rule:
///
///   s += g^2
///   x -= lr * g / (sqrt(s) + epsilon)
Rule adagrad(const AdagradOptions& options = {});

struct AdamOptions {
  double lr = 1e-3;       ///< positive
  double beta1 = 0.9;     ///< at least 0, below 1
  double beta2 = 0.999;   ///< at least 0, below 1
  double epsilon = 1e-8;  ///< at least 0
};
void visit(AdamOptions& options, OptionVisitor& visitor);
/// Kingma & Ba 2015, Algorithm 1, where t is the number of updates of x, including this one:
///
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g^2
///   x -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
Rule adam(const AdamOptions& options = {});

}  // namespace rules
}  // namespace tw::parameter_server

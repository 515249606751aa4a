// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/comm/mesh.hpp>
#include <tw/gradients/loss.hpp>
#include <vector>

namespace tw {

/// What a rank knows about its batch before a call that all ranks make together.
struct BatchFacts {
  static constexpr int64_t unknown = -1;  ///< the rank has no batch, such as those of inner stages
  static constexpr int64_t uneven = -2;   ///< its tensors have different numbers of rows
  static constexpr int64_t refused = -3;  ///< the rank cannot make a pass, and throws an error of its own
  enum class Call : uint8_t { train_step, evaluate, memory };

  int64_t rows = unknown;
  double weight = 0;  ///< weight of its targets
  bool knows_weight = false;
  int64_t inputs = 0;  ///< hash; 0: not known
  int64_t targets = 0;
  Call call = Call::train_step;
  int64_t modes = 0;  ///< hash of which parts of the module are in training mode
};

/// @param hashes whether to hash the batch, which is needed only where several ranks hold a model together
BatchFacts facts_of(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const Loss& loss, bool hashes);

/// What all ranks agree on.
struct Update {
  std::vector<int64_t> rows;  ///< rows of each place along the sample axes
  int64_t all_rows = 0;
  double weight = 0;  ///< weight of all targets
};

/// Combines the facts of all ranks. Pure. @param place_of the place of each rank along the sample axes; places are counted from 0
/// @throws ContractError if ranks of one place pass different batches, or there are no samples, or no target counts, or a rank
/// cannot make a pass, or ranks make different calls or have modules in different modes
Update update_of(const std::vector<BatchFacts>& facts, const std::vector<int>& place_of);

/// Exchanges the facts. Collective; throws on all ranks alike.
Update agree_on_update(const Communicator& comm, const BatchFacts& mine, const std::vector<int>& place_of);

}  // namespace tw

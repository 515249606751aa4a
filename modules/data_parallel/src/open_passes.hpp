// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace tw {

/// Backward passes of several models that end with one backward(). Each rank may begin its passes in any order, e.g. the order in which it called
/// the models. They end, and wait for other ranks, in the order in which the models were wrapped.
class OpenPasses {
 public:
  /// The activity of a pass's communicator, for the message when a rank waits for another that makes no such pass.
  static constexpr const char* activity =
      "backward passes, of which all ranks must make the same number: if an optimizer's closure (LBFGS) or a condition decides, base it on "
      "tw::reduced(comm, loss, reduction)";
  /// Numbers gradient reducers in the order of construction, which is the same on all ranks.
  static int64_t next_number() noexcept;
  /// Registers a pass that begins in the current backward(). @param number of its reducer @param pass kept alive until backward() returns or throws
  /// @param end called when it returns @param fail called by end_failed() if it threw
  static void open(int64_t number, std::shared_ptr<void> pass, std::function<void()> end, std::function<void()> fail);
  /// Ends the passes of each backward() that threw, in the order in which other ranks wait for them.
  static void end_failed();
};

}  // namespace tw

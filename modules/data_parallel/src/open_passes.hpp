// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace tw {

/// Backward passes of several models that end with one backward(). On each rank gradients, and with them passes, begin in an order of its own, such
/// as that in which it called the models; they end, and wait for the other ranks, in the order in which the models were wrapped.
class OpenPasses {
 public:
  /// What ranks do in the exchanges of a pass, for the message where one waits for another that makes no such pass.
  static constexpr const char* occasion =
      "backward passes, which all ranks make equally often: where an optimizer's closure (LBFGS) or a condition decides, let it decide by "
      "tw::reduced(comm, loss, reduction)";
  /// Numbers what reduces gradients, in the order of construction, which all ranks share.
  static int64_t next_number() noexcept;
  /// A pass has begun in the backward() that calls this. @param number of what reduces its gradients @param pass kept until that backward() ends or
  /// throws @param end called when it ends @param fail called by end_failed() if it threw
  static void open(int64_t number, std::shared_ptr<void> pass, std::function<void()> end, std::function<void()> fail);
  /// Ends the passes of each backward() that threw, in the order in which other ranks wait for them.
  static void end_failed();
};

}  // namespace tw

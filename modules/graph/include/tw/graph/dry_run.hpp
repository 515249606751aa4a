// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::graph {

/// During the lifetime of a DryRun, operators that this thread calls must not communicate with other ranks. Their results have the usual shapes, but
/// other values. capture() runs modules like this, so it is a local call, even if the modules contain split layers.
class DryRun {
 public:
  DryRun() noexcept;
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  /// Whether this thread has a DryRun.
  static bool here() noexcept;
};

}  // namespace tw::graph

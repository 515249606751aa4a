// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace tw::pipeline {

/// Snapshots of buffers at several moments of a pass, limited to buffers that the pass changes. Moments share copies of buffers that did not change
/// between them.
class BufferStates {
 public:
  explicit BufferStates(std::vector<at::Tensor> buffers = {});

  /// Takes a snapshot. On an accelerator every buffer is copied, so that the host does not wait to learn which ones changed.
  void add();
  /// Ends the pass: copies of buffers that it did not change are freed.
  void finish();
  /// Restores the snapshot `index`. Version counters stay the same, so graphs that saved the buffers can still be run.
  void restore(size_t index) const;

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<std::vector<at::Tensor>> moments_;  // by buffer; undefined: never changed
};

}  // namespace tw::pipeline

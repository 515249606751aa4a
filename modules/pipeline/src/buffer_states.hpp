// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace tw::pipeline {

/// Snapshots of buffers at several moments of a pass, limited to buffers that change before the snapshots are restored. Moments share copies of
/// buffers that did not change between them.
class BufferStates {
 public:
  BufferStates() = default;
  /// @param only_this_pass whether nothing else changes the buffers until the last restore()
  BufferStates(std::vector<at::Tensor> buffers, bool only_this_pass);

  /// Takes a snapshot. On an accelerator every buffer is copied, so that the host does not wait to learn which ones changed.
  void add();
  /// Ends the pass: copies of buffers that it did not change are freed, if nothing else changes them.
  void finish();
  /// Restores the snapshot `index`. Version counters stay the same, so graphs that saved the buffers can still be run.
  void restore(size_t index) const;

 private:
  std::vector<at::Tensor> buffers_;
  bool only_this_pass_ = true;
  std::vector<std::vector<at::Tensor>> moments_;  // by buffer; undefined: never changed
};

}  // namespace tw::pipeline

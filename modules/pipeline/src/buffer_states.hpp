// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace tw::pipeline {

/// What buffers held at several moments of a pass, as far as the pass changes them. The moments share copies of what did not change between them.
class BufferStates {
 public:
  explicit BufferStates(std::vector<at::Tensor> buffers = {});

  /// The next moment is now. On an accelerator every buffer is copied: the host does not wait to find out which have changed.
  void add();
  /// The pass is over: copies of what it did not change are freed.
  void finish();
  /// Writes what was there at moment `index` back. Versions stay, so that graphs that saved the buffers can still be run.
  void put_back(size_t index) const;

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<std::vector<at::Tensor>> moments_;  // by buffer; undefined: never changed
};

}  // namespace tw::pipeline

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/library.h>

#include <mutex>
#include <optional>

namespace tw {

/// Registers operators, or a fallback for a dispatch key, in LibTorch's dispatcher when they are first used. If loading a library registered them,
/// LibTorch would end a process that loads a second copy of the library, without naming either copy. Besides, a linker leaves out files of an archive
/// that only register themselves. Make it a global variable, because other global variables of the program may hold objects that need it.
class LateRegistration {
 public:
  /// Keeps the torch::Library that `make` returns. Only the first call of the process runs `make`, which must begin with expect_only_copy(); if it
  /// throws, the next call runs it again.
  template <class Make>
  void once(const Make& make) {
    std::call_once(once_, [&] { library_.emplace(make()); });
  }

 private:
  std::once_flag once_;
  std::optional<torch::Library> library_;
};

}  // namespace tw

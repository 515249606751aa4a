// SPDX-License-Identifier: Apache-2.0
// LibTorch's generator of random numbers, borrowed.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <tw/base/random.hpp>

namespace tw {

/// Puts the generator back as it was.
class GeneratorGuard {
 public:
  GeneratorGuard() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~GeneratorGuard() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

  /// What is drawn from here on is a function of the two.
  void seed(uint64_t seed, uint64_t stream) {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_current_seed(derived_seed(seed, stream));
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace tw

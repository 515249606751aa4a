// SPDX-License-Identifier: Apache-2.0
// LibTorch's generators of random numbers, borrowed.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>

#include <c10/util/SmallVector.h>
#include <cstdint>
#include <mutex>
#include <tw/base/random.hpp>

namespace tw {

/// Puts the CPU's generator, and that of the current accelerator where there is one, back as they were.
class GeneratorGuard {
 public:
  GeneratorGuard() {
    borrow(at::detail::getDefaultCPUGenerator());
    const auto accelerator = at::accelerator::getAccelerator();
    if (!accelerator || at::accelerator::deviceCount() == 0) return;
    borrow(at::globalContext().defaultGenerator({*accelerator, at::accelerator::getDeviceIndex()}));
  }
  ~GeneratorGuard() {
    for (auto& [generator, state] : borrowed_) {
      const std::scoped_lock lock(generator.mutex());
      generator.set_state(state);
    }
  }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

  /// What is drawn from here on is a function of the two.
  void seed(uint64_t seed, uint64_t stream) {
    for (auto& [generator, state] : borrowed_) {
      const std::scoped_lock lock(generator.mutex());
      generator.set_current_seed(derived_seed(seed, stream));
    }
  }

 private:
  void borrow(at::Generator generator) {
    const std::scoped_lock lock(generator.mutex());
    at::Tensor state = generator.get_state();
    borrowed_.push_back({std::move(generator), std::move(state)});
  }

  struct Borrowed {
    at::Generator generator;
    at::Tensor state;
  };
  c10::SmallVector<Borrowed, 2> borrowed_;
};

}  // namespace tw

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
#include <vector>

namespace tw {

using Generators = c10::SmallVector<at::Generator, 2>;

/// LibTorch's default ones: the CPU's, and that of the current accelerator where there is one.
inline Generators default_generators() {
  Generators generators{at::detail::getDefaultCPUGenerator()};
  const auto accelerator = at::accelerator::getAccelerator();
  if (accelerator && at::accelerator::deviceCount() > 0) {
    generators.push_back(at::globalContext().defaultGenerator({*accelerator, at::accelerator::getDeviceIndex()}));
  }
  return generators;
}

/// Where generators are.
inline std::vector<at::Tensor> states_of(Generators generators) {
  std::vector<at::Tensor> states;
  for (at::Generator& generator : generators) {
    const std::scoped_lock lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}
inline void set_states(Generators generators, const std::vector<at::Tensor>& states) {
  for (size_t i = 0; i < states.size(); ++i) {
    const std::scoped_lock lock(generators[i].mutex());
    generators[i].set_state(states[i]);
  }
}

/// Where the default generators are.
inline std::vector<at::Tensor> random_states() { return states_of(default_generators()); }
inline void set_random_states(const std::vector<at::Tensor>& states) { set_states(default_generators(), states); }

/// Puts the default generators back as they were.
class GeneratorGuard {
 public:
  GeneratorGuard() = default;
  ~GeneratorGuard() { set_random_states(states_); }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

  /// What is drawn from here on is a function of the two.
  void seed(uint64_t seed, uint64_t stream) {
    for (at::Generator& generator : generators_) {
      const std::scoped_lock lock(generator.mutex());
      generator.set_current_seed(derived_seed(seed, stream));
    }
  }

 private:
  Generators generators_ = default_generators();
  std::vector<at::Tensor> states_ = random_states();
};

}  // namespace tw

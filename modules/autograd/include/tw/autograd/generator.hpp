// SPDX-License-Identifier: Apache-2.0
// Saving, restoring and seeding LibTorch's random number generators.
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

/// LibTorch's default generators: the CPU's, and the current accelerator's if there is one.
inline Generators default_generators() {
  Generators generators{at::detail::getDefaultCPUGenerator()};
  const auto accelerator = at::accelerator::getAccelerator();
  if (accelerator && at::accelerator::deviceCount() > 0) {
    generators.push_back(at::globalContext().defaultGenerator({*accelerator, at::accelerator::getDeviceIndex()}));
  }
  return generators;
}

/// The states of `generators`.
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

/// The states of the default generators.
inline std::vector<at::Tensor> random_states() { return states_of(default_generators()); }
inline void set_random_states(const std::vector<at::Tensor>& states) { set_states(default_generators(), states); }

/// On destruction, restores the states that the default generators had at construction.
class GeneratorGuard {
 public:
  GeneratorGuard() = default;
  ~GeneratorGuard() { set_random_states(states_); }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

  /// Numbers drawn after this call are a function of `seed` and `stream`.
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

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/random.hpp>
#include <tw/tensor/generator.hpp>

namespace tw::pipeline {

/// Whose random numbers.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t call = 0;  // of run()
  int micro_batch = 0;
  int stage = 0;
  int replica = 0;
};

/// Of all that call `call` of run() draws.
inline uint64_t key_of_call(uint64_t seed, uint64_t call) { return derived_seed(seed, call); }

/// Of all that a forward() draws which is number `number` since call `call` of run() was to come, from 0.
inline uint64_t key_of_forward(uint64_t seed, uint64_t call, uint64_t number) { return derived_seed(key_of_call(seed, call), number + 1); }

/// What is drawn from here on is a function of `key`.
inline void seed_with(GeneratorGuard& generator, const RandomKey& key) {
  const uint64_t stream =
      static_cast<uint64_t>(key.micro_batch) << 32U | static_cast<uint64_t>(key.stage) << 16U | static_cast<uint64_t>(key.replica);
  generator.seed(key_of_call(key.seed, key.call), stream);
}

}  // namespace tw::pipeline

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/autograd/generator.hpp>
#include <tw/base/random.hpp>

namespace tw::pipeline {

/// Identifies a stream of random numbers.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t call = 0;  // number of the run() call
  int micro_batch = 0;
  int stage = 0;
  int replica = 0;
};

/// Seed of all random numbers in call `call` of run().
inline uint64_t key_of_call(uint64_t seed, uint64_t call) { return derived_seed(seed, call); }

/// Seed of all random numbers in a forward(). @param number number of the forward(), counted from 0 since the last run(). @param call number of the
/// next run()
inline uint64_t key_of_forward(uint64_t seed, uint64_t call, uint64_t number) { return derived_seed(key_of_call(seed, call), number + 1); }

/// Seeds the generator from `key`.
inline void seed_with(GeneratorGuard& generator, const RandomKey& key) {
  const uint64_t stream =
      static_cast<uint64_t>(key.micro_batch) << 32U | static_cast<uint64_t>(key.stage) << 16U | static_cast<uint64_t>(key.replica);
  generator.seed(key_of_call(key.seed, key.call), stream);
}

}  // namespace tw::pipeline

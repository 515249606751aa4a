// SPDX-License-Identifier: Apache-2.0
// Models that are made without memory, since they fit into none, and what their parameters begin with.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tw {

/// ```
/// InitialValues initial(seed);
/// auto net = initial.record([&] { return models::Gpt(options); });                         // allocates no memory
/// FullySharded sharded(comm, *net, {.reduction = Reduction::mean}, {.initial = &initial});  // each rank makes its slices
/// ```
/// While a model is made, large floating-point tensors get no memory. The operations that fill them are recorded, to fill any part later: uniform_,
/// normal_, zero_, fill_, and sums, products, quotients and bounds with numbers. Random numbers depend on the seed, the tensor's number and the
/// element alone, not on which rank makes which part; they differ from those of a model that is made with memory.
class InitialValues {
 public:
  /// Elements of a tensor that is made without memory, at least; smaller ones are made as always.
  static constexpr int64_t min_numel = int64_t{1} << 16;

  explicit InitialValues(uint64_t seed = 0);
  ~InitialValues();
  InitialValues(const InitialValues&) = delete;
  InitialValues& operator=(const InitialValues&) = delete;

  /// @return make(), called while tensors get no memory. On this thread. @throws whatever make() throws
  template <class Make>
  auto record(Make&& make) {
    const Recording recording(*this);
    return make();
  }

  /// Fills `part` with the elements of `tensor` from `begin` on. @param part [n], any floating-point dtype @param name for messages
  /// @throws ContractError naming what fills the tensor, where it cannot be done in parts: it depends on other tensors, or on the whole of this one
  void fill(const at::Tensor& part, const at::Tensor& tensor, int64_t begin, const std::string& name) const;

 private:
  struct Impl;
  class Recording {
   public:
    explicit Recording(InitialValues& values);
    ~Recording();

   private:
    struct Listener;
    std::unique_ptr<Listener> listener_;
  };

  std::unique_ptr<Impl> impl_;
};

}  // namespace tw

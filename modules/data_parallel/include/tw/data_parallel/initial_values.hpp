// SPDX-License-Identifier: Apache-2.0
// Constructs models that are too large for one rank without memory, and computes their initial values later, part by part.
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
/// While record() constructs a model, large floating-point tensors get no memory. The operations that fill them are recorded, so that any part can be
/// filled later. These may be uniform_, normal_, zero_, fill_, and adding, multiplying, dividing and clamping by numbers. Random numbers depend only
/// on the seed, on the tensor's number in order of construction, and on the element's index, not on which rank fills which part. They differ from
/// those of a model constructed with memory.
class InitialValues {
 public:
  /// Minimum number of elements of a tensor without memory; smaller tensors are allocated as usual.
  static constexpr int64_t min_numel = int64_t{1} << 16;

  explicit InitialValues(uint64_t seed = 0);
  ~InitialValues();
  InitialValues(const InitialValues&) = delete;
  InitialValues& operator=(const InitialValues&) = delete;

  /// Calls `make`; large tensors that it makes on this thread get no memory. @return the result of `make`. @throws whatever `make` throws
  template <class Make>
  auto record(Make&& make) {
    const Recording recording(*this);
    return make();
  }

  /// Fills `part` with the initial values of `tensor`, flattened, from element `begin` on. @param part [n], any floating-point dtype @param name the
  /// tensor's name, for messages
  /// @throws ContractError naming `name` if record() did not make the tensor, or if an operation that filled it cannot be done in parts, because the
  /// operation depends on other tensors or on the whole tensor
  void fill(const at::Tensor& part, const at::Tensor& tensor, int64_t begin, const std::string& name) const;
  /// If `tensor` has no memory, allocates it on the CPU and fills in its initial values. All handles to `tensor` see these values. @throws as fill()
  /// does
  void allocate(const at::Tensor& tensor, const std::string& name) const;

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

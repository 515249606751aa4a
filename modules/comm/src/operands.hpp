// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/util/SmallVector.h>
#include <memory>
#include <span>
#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// The tensors of one operation as flat memory: packs those that are not contiguous, unpacks results at the end, and keeps all alive until then.
class Operands {
 public:
  /// @param operation for messages. @param audited whether the end checks that nobody changed the tensors meanwhile.
  Operands(Collective operation, bool audited);

  /// Memory to read. @throws ContractError unless it lies on the CPU and has a dtype that travels.
  std::span<const std::byte> in(const at::Tensor& tensor);
  /// Memory whose content becomes that of `tensor` at the end.
  std::span<std::byte> out(const at::Tensor& tensor);
  /// Memory that holds the content of `tensor` and gives it back changed.
  std::span<std::byte> in_place(const at::Tensor& tensor);
  /// The same for several tensors of one dtype, one after the other.
  std::span<std::byte> in_place(const std::vector<at::Tensor>& tensors);

  /// To be called once, when the data has arrived. @throws ContractError when a tensor was changed in flight.
  void finish();

 private:
  struct Result {
    at::Tensor tensor;
    at::Tensor packed;  // where it lies for now; `tensor` itself if that is contiguous
  };
  void expect_usable(const at::Tensor& tensor) const;
  void watch(const at::Tensor& tensor);

  Collective operation_;
  bool audited_;
  c10::SmallVector<at::Tensor, 1> inputs_;
  c10::SmallVector<Result, 1> results_;
  std::vector<std::pair<at::Tensor, int64_t>> versions_;  // at the beginning
};

/// Starts `transfer`, whose memory is that of `operands`.
Work start(const Communicator& comm, const Call& call, std::unique_ptr<mpi::Transfer> transfer, std::shared_ptr<Operands> operands);

}  // namespace tw

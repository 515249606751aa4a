// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/util/SmallVector.h>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tw/base/call.hpp>
#include <tw/comm/backend.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/start_queue.hpp>
#include <vector>

#include "operation_stream.hpp"

namespace tw {

/// @throws ContractError, naming `operation`, unless it can be done on `tensor`: a dense one on the CPU or an accelerator, of a dtype that travels.
void expect_travels(Collective operation, const at::Tensor& tensor);
/// @throws ContractError unless `tensor` lies on `device`, as others of the operation do
void expect_lies_on(Collective operation, const at::Tensor& tensor, c10::Device device);

/// Of messages, and of collectives made of them: direct where MPI takes the memory of the device that `tensor` lies on.
Passage passage_of_messages(const Communicator& comm, const at::Tensor& tensor);

/// The tensors of one operation as flat memory: packs those that are not contiguous, brings those that lie on a device to the host unless the
/// operation goes there itself, gives results back at the end, and keeps all alive until then.
class Operands {
 public:
  /// @param operation for messages. @param audited whether the end checks that nobody changed the tensors meanwhile. @param passage of tensors on a
  /// device. @param give_up ends what is in the stream, where the passage is that
  Operands(Collective operation, bool audited, Passage passage = Passage::staged, std::function<void()> give_up = {});

  /// Memory to read. @throws ContractError unless it lies where the others of this operation do, and has a dtype that travels.
  std::span<const std::byte> in(const at::Tensor& tensor);
  /// Memory whose content becomes that of `tensor` at the end. @throws ContractError also where elements of `tensor` share memory.
  std::span<std::byte> out(const at::Tensor& tensor);
  /// Memory that holds the content of `tensor` and gives it back changed.
  std::span<std::byte> in_place(const at::Tensor& tensor);
  /// The same for several tensors of one dtype, one after the other.
  std::span<std::byte> in_place(const std::vector<at::Tensor>& tensors);

  /// A part of a tensor of a device, in memory of the host.
  struct Part {
    std::byte* memory;
    int64_t count;                 // elements
    mpi::StartQueue::Ready ready;  // whether it is there; empty: nothing is to be read
    std::function<void()> copy_out;
  };
  /// Where the passage is staged: memory in parts of at most `elements`, which come one after the other and are given back each for itself, so that
  /// the ways there, on and back are in use at the same time. @param reads whether they hold the content of `tensor`. @param writes whether it
  /// changes
  std::vector<Part> in_parts(const at::Tensor& tensor, int64_t elements, bool reads, bool writes);

  /// Whether what is to be read lies in the memory. Empty: it does from the beginning.
  mpi::StartQueue::Ready ready() const;
  /// The lane's; nothing for tensors of the host.
  std::optional<c10::Stream> stream() const;
  /// Null for tensors of the host.
  const std::shared_ptr<OperationStream>& lane() const noexcept { return lane_; }

  /// To be called once, when the data has arrived. @throws ContractError when a tensor was changed in flight.
  void finish();

 private:
  struct Result {
    at::Tensor tensor;
    at::Tensor packed;  // where it lies for now; `tensor` itself if that is contiguous
  };
  void admit(const at::Tensor& tensor);
  void admit_output(const at::Tensor& tensor);
  bool stays(const at::Tensor& tensor) const;
  at::Tensor memory_for(at::IntArrayRef sizes, at::ScalarType dtype) const;
  void copy_in(const at::Tensor& tensor, const at::Tensor& packed);

  Collective operation_;
  bool audited_;
  Passage passage_;
  std::function<void()> give_up_;
  c10::SmallVector<at::Tensor, 1> inputs_;
  c10::SmallVector<Result, 1> results_;
  std::vector<std::pair<at::Tensor, int64_t>> versions_;  // at the beginning
  std::optional<c10::Device> device_;
  std::shared_ptr<OperationStream> lane_;  // null for tensors of the host
  bool brings_ = false;
};

/// Puts `transfer`, whose memory is that of `operands`, into the engine.
Work start(const Communicator& comm, const Call& call, std::unique_ptr<mpi::Transfer> transfer, std::shared_ptr<Operands> operands);

}  // namespace tw

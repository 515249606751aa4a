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

/// @throws ContractError, naming `operation`, unless `tensor` is dense, on the CPU or an accelerator, and of a supported dtype.
void expect_supported_tensor(Collective operation, const at::Tensor& tensor);
/// @throws ContractError unless `tensor` is on `device`, like the operation's other tensors
void expect_lies_on(Collective operation, const at::Tensor& tensor, c10::Device device);

/// The passage of messages, and of collectives made of them: direct if MPI accepts the memory of `tensor`'s device.
Passage passage_of_messages(const Communicator& comm, const at::Tensor& tensor);

/// The tensors of one operation as flat memory. It packs tensors that are not contiguous, and copies device tensors to the host unless the operation
/// works on the device. It copies results back at the end, and keeps all tensors alive until then.
class Operands {
 public:
  /// @param operation named in errors. @param audited whether the end checks that no tensor was changed meanwhile. @param passage of device tensors.
  /// @param give_up ends the stream's work, if the passage is in_stream
  Operands(Collective operation, bool audited, Passage passage = Passage::staged, std::function<void()> give_up = {});

  /// Memory to read. @throws ContractError unless it is on the same device as the operation's other tensors, and of a supported dtype.
  std::span<const std::byte> in(const at::Tensor& tensor);
  /// Memory whose content is copied to `tensor` at the end. @throws ContractError also if elements of `tensor` share memory.
  std::span<std::byte> out(const at::Tensor& tensor);
  /// Memory that starts with the content of `tensor` and is copied back at the end.
  std::span<std::byte> in_place(const at::Tensor& tensor);
  /// The same for several tensors of one dtype, packed together.
  std::span<std::byte> in_place(const std::vector<at::Tensor>& tensors);

  /// A part of a device tensor, in host memory.
  struct Part {
    std::byte* memory;
    int64_t count;                 // elements
    mpi::StartQueue::Ready ready;  // whether the data has been copied in; empty: nothing to read
    std::function<void()> copy_out;
  };
  /// For staged passage: memory in parts of at most `elements`, copied in one by one and copied out separately. So the network and both directions of
  /// the bus are busy at the same time. @param reads whether the parts start with the content of `tensor`. @param writes whether they change it
  std::vector<Part> in_parts(const at::Tensor& tensor, int64_t elements, bool reads, bool writes);

  /// Whether the data to be read is in memory. Empty: it is from the start.
  mpi::StartQueue::Ready ready() const;
  /// The operation's stream; empty for host tensors.
  std::optional<c10::Stream> stream() const;
  /// Null for host tensors.
  const std::shared_ptr<OperationStream>& operation_stream() const noexcept { return operation_stream_; }

  /// Call it once, when the data has arrived. @throws ContractError if a tensor was changed in flight.
  void finish();

 private:
  struct Result {
    at::Tensor tensor;
    at::Tensor packed;  // where the result is until the end; `tensor` itself if that is contiguous
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
  std::vector<std::pair<at::Tensor, int64_t>> versions_;  // when the operation began
  std::optional<c10::Device> device_;
  std::shared_ptr<OperationStream> operation_stream_;  // null for host tensors
  bool copies_in_ = false;
};

/// Starts `transfer`, which works in the memory of `operands`, in the engine.
Work start(const Communicator& comm, const Call& call, std::unique_ptr<mpi::Transfer> transfer, std::shared_ptr<Operands> operands);

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include "operands.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/mpi/device_awareness.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "devices_here.hpp"

namespace tw {
namespace {

std::byte* memory_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Conjugated and negated views keep the original's memory.
bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();  // so that autograd sees that the values changed
}

}  // namespace

void expect_supported_tensor(Collective operation, const at::Tensor& tensor) {
  TW_EXPECTS(tensor.defined(), name_of(operation), " was given an undefined tensor");
  if (!is_on_accelerator(tensor)) expect_dense_on_cpu(tensor, name_of(operation));
  TW_EXPECTS(tensor.layout() == at::kStrided, name_of(operation), " needs a dense tensor, got a sparse one on ", tensor.device().str());
  element_type(tensor.scalar_type());  // throws for unsupported dtypes
}

void expect_lies_on(Collective operation, const at::Tensor& tensor, c10::Device device) {
  TW_EXPECTS(tensor.device() == device, name_of(operation), " was given tensors on ", device.str(), " and on ", tensor.device().str(),
             "; all tensors of a call must be on the same device");
}

Passage passage_of_messages(const Communicator& comm, const at::Tensor& tensor) {
  const bool direct = tensor.defined() && !tensor.is_cpu() && mpi::takes_devices(comm, kind_of(tensor.device().type()));
  return direct ? Passage::direct : Passage::staged;
}

Operands::Operands(Collective operation, bool audited, Passage passage, std::function<void()> give_up)
    : operation_(operation), audited_(audited), passage_(passage), give_up_(std::move(give_up)) {}

// Checks a tensor that takes part. The first one determines the device of all.
void Operands::admit(const at::Tensor& tensor) {
  expect_supported_tensor(operation_, tensor);
  if (!device_) {
    device_ = tensor.device();
    if (!tensor.is_cpu()) operation_stream_ = std::make_shared<OperationStream>(*device_, passage_ == Passage::in_stream ? give_up_ : nullptr);
  }
  expect_lies_on(operation_, tensor, *device_);
  if (passage_ == Passage::in_stream && operation_stream_) operation_stream_->use(tensor);
  if (audited_ && !tensor.is_inference()) versions_.emplace_back(tensor, tensor._version());
}

// If several elements share memory, each cannot receive a value. LibTorch would report that only after the data has arrived.
void Operands::admit_output(const at::Tensor& tensor) {
  admit(tensor);
  TW_EXPECTS(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, name_of(operation_), " cannot write into a tensor of shape ",
             shape_text(tensor.sizes().vec()), " that was made by expand(): several of its elements share memory; pass its clone()");
}

// Whether the operation works in the tensor's own memory.
bool Operands::stays(const at::Tensor& tensor) const { return is_plain(tensor) && (!operation_stream_ || passage_ != Passage::staged); }

at::Tensor Operands::memory_for(at::IntArrayRef sizes, at::ScalarType dtype) const {
  return operation_stream_ ? operation_stream_->memory(sizes, dtype, passage_ != Passage::staged)
                           : at::empty(sizes, at::TensorOptions().dtype(dtype));
}

void Operands::copy_in(const at::Tensor& tensor, const at::Tensor& packed) {
  const at::NoGradGuard no_grad;
  if (operation_stream_) {
    operation_stream_->copy_in(tensor, packed);
    copies_in_ = true;
  } else {
    at::Tensor(packed).copy_(tensor);
  }
}

std::span<const std::byte> Operands::in(const at::Tensor& tensor) {
  admit(tensor);
  if (stays(tensor)) {
    inputs_.push_back(tensor);
  } else {
    inputs_.push_back(memory_for(tensor.sizes(), tensor.scalar_type()));
    copy_in(tensor, inputs_.back());
  }
  return {memory_of(inputs_.back()), inputs_.back().nbytes()};
}

std::span<std::byte> Operands::out(const at::Tensor& tensor) {
  admit_output(tensor);
  results_.push_back({tensor, stays(tensor) ? tensor : memory_for(tensor.sizes(), tensor.scalar_type())});
  const at::Tensor& packed = results_.back().packed;
  return {memory_of(packed), packed.nbytes()};
}

std::span<std::byte> Operands::in_place(const at::Tensor& tensor) {
  const std::span<std::byte> memory = out(tensor);
  const at::Tensor& packed = results_.back().packed;
  if (!packed.is_same(tensor)) copy_in(tensor, packed);
  return memory;
}

std::span<std::byte> Operands::in_place(const std::vector<at::Tensor>& tensors) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) {
    admit_output(tensor);
    TW_EXPECTS(tensor.scalar_type() == tensors[0].scalar_type(), name_of(operation_), " of several tensors needs the same dtype for all of them");
    total += tensor.numel();
  }
  const at::Tensor packed = memory_for({total}, tensors.at(0).scalar_type());
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor place = packed.narrow(0, at, tensor.numel()).view(tensor.sizes());
    copy_in(tensor, place);
    results_.push_back({tensor, place});
    at += tensor.numel();
  }
  inputs_.push_back(packed);
  return {memory_of(packed), packed.nbytes()};
}

std::vector<Operands::Part> Operands::in_parts(const at::Tensor& tensor, int64_t elements, bool reads, bool writes) {
  writes ? admit_output(tensor) : admit(tensor);
  const at::NoGradGuard no_grad;
  const at::Tensor packed = memory_for(tensor.sizes(), tensor.scalar_type());
  inputs_.push_back(packed);
  const bool by_part = writes && is_plain(tensor);
  if (writes && !by_part) results_.push_back({tensor, packed});
  operation_stream_->begin_parts();
  const at::Tensor there = reads || by_part ? operation_stream_->flat(tensor) : at::Tensor();
  std::vector<Part> parts;
  for (int64_t at = 0; at < tensor.numel(); at += elements) {
    const int64_t count = std::min(elements, tensor.numel() - at);
    const at::Tensor here = packed.view(-1).narrow(0, at, count);
    Part part{memory_of(here), count, {}, [] {}};
    if (reads) part.ready = [arrived = operation_stream_->copy_in_part(there.narrow(0, at, count), here)](const Communicator&) { return arrived(); };
    if (by_part) part.copy_out = [stream = operation_stream_, here, to = there.narrow(0, at, count)] { stream->copy_out_part(here, to); };
    parts.push_back(std::move(part));
  }
  return parts;
}

std::optional<c10::Stream> Operands::stream() const { return operation_stream_ ? std::optional(operation_stream_->stream()) : std::nullopt; }

mpi::StartQueue::Ready Operands::ready() const {
  const bool at_once = !operation_stream_ || passage_ == Passage::in_stream || (passage_ == Passage::staged && !copies_in_);
  if (at_once) return {};
  return [stream = operation_stream_](const Communicator&) { return stream->has_arrived(); };
}

void Operands::finish() {
  const at::NoGradGuard no_grad;
  for (const auto& [tensor, version] : versions_) {
    TW_EXPECTS(tensor._version() == version, "the tensor of a non-blocking ", name_of(operation_),
               " was changed while it was in flight; wait() first");
  }
  for (const Result& result : results_) {
    if (result.packed.is_same(result.tensor)) {
      bump_version(result.tensor);
    } else if (operation_stream_) {
      operation_stream_->copy_out(result.packed, result.tensor);
    } else {
      at::Tensor(result.tensor).copy_(result.packed);
    }
  }
  if (operation_stream_) operation_stream_->end();
}

Work start(const Communicator& comm, const Call& call, std::unique_ptr<mpi::Transfer> transfer, std::shared_ptr<Operands> operands) {
  std::shared_ptr<mpi::Completion> completion = operands->operation_stream();
  return mpi::start(comm, call, std::move(transfer), [operands = std::move(operands)] { operands->finish(); }, std::move(completion));
}

}  // namespace tw

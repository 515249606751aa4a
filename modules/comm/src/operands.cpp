// SPDX-License-Identifier: Apache-2.0
#include "operands.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <tw/base/contract.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw {
namespace {

std::byte* memory_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Conjugated and negated views keep the original's memory.
bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

void bump_version(const at::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();  // autograd learns that the values changed
}

}  // namespace

Operands::Operands(Collective operation, bool audited) : operation_(operation), audited_(audited) {}

void Operands::expect_usable(const at::Tensor& tensor) const {
  TW_EXPECTS(tensor.defined(), name_of(operation_), " was given an undefined tensor");
  expect_dense_on_cpu(tensor, name_of(operation_));
  element_type(tensor.scalar_type());  // throws for dtypes that do not travel
}

void Operands::watch(const at::Tensor& tensor) {
  if (audited_ && !tensor.is_inference()) versions_.emplace_back(tensor, tensor._version());
}

std::span<const std::byte> Operands::in(const at::Tensor& tensor) {
  expect_usable(tensor);
  watch(tensor);
  const at::NoGradGuard no_grad;
  inputs_.push_back(is_plain(tensor) ? tensor : tensor.resolve_conj().resolve_neg().contiguous());
  return {memory_of(inputs_.back()), inputs_.back().nbytes()};
}

std::span<std::byte> Operands::out(const at::Tensor& tensor) {
  expect_usable(tensor);
  watch(tensor);
  results_.push_back({tensor, is_plain(tensor) ? tensor : at::empty(tensor.sizes(), tensor.options().requires_grad(false))});
  const at::Tensor& packed = results_.back().packed;
  return {memory_of(packed), packed.nbytes()};
}

std::span<std::byte> Operands::in_place(const at::Tensor& tensor) {
  const std::span<std::byte> memory = out(tensor);
  const at::Tensor& packed = results_.back().packed;
  const at::NoGradGuard no_grad;
  if (!packed.is_same(tensor)) at::Tensor(packed).copy_(tensor);
  return memory;
}

std::span<std::byte> Operands::in_place(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) {
    expect_usable(tensor);
    TW_EXPECTS(tensor.scalar_type() == tensors[0].scalar_type(), name_of(operation_), " of several tensors needs one dtype");
    watch(tensor);
    total += tensor.numel();
  }
  const at::Tensor packed = at::empty({total}, tensors.at(0).options().requires_grad(false));
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor place = packed.narrow(0, at, tensor.numel()).view(tensor.sizes());
    place.copy_(tensor);
    results_.push_back({tensor, place});
    at += tensor.numel();
  }
  inputs_.push_back(packed);
  return {memory_of(packed), packed.nbytes()};
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
    } else {
      at::Tensor(result.tensor).copy_(result.packed);
    }
  }
}

Work start(const Communicator& comm, const Call& call, std::unique_ptr<mpi::Transfer> transfer, std::shared_ptr<Operands> operands) {
  return mpi::start(comm, call, std::move(transfer), [operands = std::move(operands)] { operands->finish(); });
}

}  // namespace tw

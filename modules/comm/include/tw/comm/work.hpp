// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tw/mpi/request.hpp>

namespace tw {

/// A non-blocking operation on a tensor. It keeps the tensor alive; the tensor must be left alone until completion (checked in
/// audit builds). Dropping it neither waits nor cancels: the operation goes on and keeps its tensor.
class [[nodiscard]] Work {
 public:
  /// Holds nothing; complete.
  Work() = default;
  /// @param audited whether completion checks that nobody changed `tensor` meanwhile.
  Work(mpi::Request request, at::Tensor tensor, std::string operation, bool audited);

  /// Whether the operation is complete; advances it; may be called again. @throws MpiError, ContractError
  bool test();
  /// Returns when the operation is complete; may be called again. @throws MpiError, ContractError
  void wait();

 private:
  void complete();

  mpi::Request request_;
  at::Tensor tensor_;  // undefined once complete
  std::string operation_;
  int64_t version_at_start_ = -1;  // -1: not checked
};

}  // namespace tw

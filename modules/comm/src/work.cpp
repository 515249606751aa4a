// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/comm/work.hpp>

namespace tw {

Work::Work(mpi::Request request, at::Tensor tensor, std::string operation, bool audited)
    : request_(std::move(request)), tensor_(std::move(tensor)), operation_(std::move(operation)) {
  if (audited && !tensor_.is_inference()) version_at_start_ = tensor_._version();
}

bool Work::test() {
  if (!request_.test()) return false;
  complete();
  return true;
}

void Work::wait() {
  request_.wait();
  complete();
}

void Work::complete() {
  const at::Tensor tensor = std::exchange(tensor_, at::Tensor());
  if (!tensor.defined() || version_at_start_ < 0) return;
  TW_EXPECTS(tensor._version() == version_at_start_, "the tensor of a non-blocking ", operation_,
             " was changed while it was in flight; wait() first");
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include "audit.hpp"

#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw {

void audit_call(const Communicator& comm, const char* operation, const at::Tensor& tensor, const std::string& detail) {
  if (!comm.audited()) return;
  expect_same_on_all_ranks(comm, "the collective call",
                           {concat(operation, " ", detail, " of ", dtype_name(tensor.scalar_type()), " ", shape_text(tensor.sizes().vec()))});
}

}  // namespace tw

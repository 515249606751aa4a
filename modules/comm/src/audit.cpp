// SPDX-License-Identifier: Apache-2.0
#include "audit.hpp"

#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw {
namespace {

void expect_same_call(const Communicator& comm, const std::string& line) { expect_same_on_all_ranks(comm, "the collective call", {line}); }

}  // namespace

void audit_call(const Communicator& comm, const Call& call, const at::Tensor& tensor) {
  if (comm.audited()) expect_same_call(comm, concat(call.describe(), ' ', shape_text(tensor.sizes().vec())));
}

void audit_call(const Communicator& comm, const Call& call) {
  if (comm.audited()) expect_same_call(comm, call.describe());
}

}  // namespace tw

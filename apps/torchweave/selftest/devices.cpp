// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <tw/base/concat.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/device.hpp>

#include "comparison.hpp"
#include "part.hpp"

namespace tw::tool::selftest {

Outcome compare_devices(const Communicator& comm, const Conditions& conditions) {
  const c10::Device device = device_of_rank(comm, "auto");
  if (device.is_cpu()) return {Verdict::skipped, "needs a device that LibTorch finds on every rank"};
  Comparison comparison;
  for (const int64_t count : {1, 1000, 100000}) {
    const at::Tensor numbers = at::arange(count, at::kDouble).remainder(7);  // sums are exact
    const at::Tensor tensor = (numbers + double{comm.rank() + (conditions.is_wrong_here ? 1.0 : 0.0)}).to(device);
    allreduce(comm, tensor, ReduceOp::sum);
    const at::Tensor expected = numbers * comm.size() + 0.5 * comm.size() * (comm.size() - 1);
    comparison.expect(tensor.cpu().equal(expected), concat("the sum of ", count, " float64 on ", device.str(), " is wrong"));
  }
  return comparison.outcome();
}

}  // namespace tw::tool::selftest

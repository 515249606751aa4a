// SPDX-License-Identifier: Apache-2.0
#include "replica_sample.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <tw/comm/collectives.hpp>

#include "tolerance.hpp"

namespace tw {
namespace {

constexpr int64_t elements = 8;  // per pass

bool can_be_read(const at::Tensor& parameter) {
  return parameter.is_cpu() && !parameter.is_sparse() && parameter.numel() > 0 && parameter.is_non_overlapping_and_dense() &&
         parameter.is_floating_point();
}

}  // namespace

ReplicaSample::Element ReplicaSample::element(int64_t number) const {
  const size_t parameter = static_cast<size_t>(number) % parameters_.size();
  const int64_t numel = std::max<int64_t>(parameters_[parameter].tensor.numel(), 1);
  return {parameter, static_cast<int64_t>(derived_seed(static_cast<uint64_t>(number), 0) % static_cast<uint64_t>(numel))};
}

uint64_t ReplicaSample::take() {
  uint64_t mark = 0;
  for (int64_t i = 0; i < elements && !parameters_.empty(); ++i) {
    const auto [parameter, index] = element(elements * passes_ + i);
    const at::Tensor& tensor = parameters_[parameter].tensor;
    uint64_t bits = 0;
    if (can_be_read(tensor)) {
      const auto size = static_cast<size_t>(tensor.element_size());
      std::memcpy(&bits, static_cast<const char*>(tensor.const_data_ptr()) + static_cast<size_t>(index) * size, size);
    }
    mark = derived_seed(mark, bits);
  }
  ++passes_;
  return mark;
}

void ReplicaSample::compare(const Communicator& comm) const {
  const at::NoGradGuard no_grad;
  const at::Tensor mine = at::zeros({elements, 2}, at::TensorOptions().dtype(at::kDouble));  // element, largest of its parameter
  auto* values = mine.mutable_data_ptr<double>();
  for (int64_t i = 0; i < elements; ++i, values += 2) {
    const auto [parameter, index] = element(elements * (passes_ - 1) + i);
    const at::Tensor& tensor = parameters_[parameter].tensor;
    if (!can_be_read(tensor)) continue;
    values[0] = tensor.as_strided({1}, {1}, tensor.storage_offset() + index).item<double>();
    values[1] = tensor.abs().max().item<double>();
  }
  const at::Tensor all = at::empty({comm.size(), elements, 2}, mine.options());
  allgather(comm, mine, all);
  const auto* const first = all.const_data_ptr<double>();
  for (int rank = 1; rank < comm.size(); ++rank) {
    for (int64_t i = 0; i < elements; ++i) {
      const double* const a = first + 2 * i;
      const double* const b = first + 2 * (elements * rank + i);
      const NamedTensor& parameter = parameters_[element(elements * (passes_ - 1) + i).parameter];
      const double largest = std::max(std::abs(a[1]), std::abs(b[1]));
      TW_EXPECTS(!(std::abs(a[0] - b[0]) > tolerance_of(parameter.tensor.scalar_type()) * largest), "before backward pass ", passes_,
                 " an element of ", parameter.name, " is ", a[0], " on rank 0 and ", b[0], " on rank ", rank,
                 ": the ranks did not make the same updates. If an optimizer's closure (LBFGS) or a condition decides, base it on "
                 "tw::reduced(comm, loss, reduction), which is the same on all ranks");
    }
  }
}

}  // namespace tw

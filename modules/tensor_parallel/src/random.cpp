// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/random.hpp>

#include <ATen/ops/dropout.h>

#include <mutex>
#include <tw/base/contract.hpp>

namespace tw::tensor_parallel {
namespace {

uint64_t drawn() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

}  // namespace

SplitRandom::SplitRandom(const Communicator& comm) : seed_(drawn()), stream_(1 + static_cast<uint64_t>(int{comm.rank()})) {
  generators_.seed(seed_, static_cast<uint64_t>(int{comm.rank()}));
}

SplitDropoutImpl::SplitDropoutImpl(const Communicator& comm, double p) : SplitModule(comm), p_(p) {
  TW_EXPECTS(p >= 0 && p <= 1, "the probability of dropout must be from 0 to 1, got ", p);
}

torch::Tensor SplitDropoutImpl::forward(const torch::Tensor& input) {
  if (!is_training() || p_ == 0) return input;
  const SplitRandom different(comm());
  return at::dropout(input, p_, true);
}

}  // namespace tw::tensor_parallel

// SPDX-License-Identifier: Apache-2.0
#include "periodic_average.hpp"

#include "module_tensors.hpp"

#include <ATen/ops/zeros.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>

namespace tw {

void expect_same_strategy(const Communicator& comm, const std::string& strategy, const std::vector<std::string>& options,
                          const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> lines = options;
  for (std::string& line : lines_of(tensors)) lines.push_back(std::move(line));
  expect_same_on_all_ranks(comm, concat("options and parameters of ", strategy), lines);
  TW_EXPECTS(!tensors.empty(), strategy, " has nothing to train: does any parameter require a gradient?");
}

PeriodicAverage::PeriodicAverage(const Communicator& comm, std::string counter, std::vector<TensorSpec> values, c10::Device device, int64_t period)
    : comm_(comm.dup()),
      buckets_(comm_, std::move(values), device),
      period_(period),
      steps_(whole(std::move(counter), at::zeros({}, at::TensorOptions().dtype(at::kLong)), ShardKind::counter)) {}

bool PeriodicAverage::count_step() { return ++*steps_.tensor.mutable_data_ptr<int64_t>() >= period_; }

bool PeriodicAverage::steps_are_left() const { return *steps_.tensor.const_data_ptr<int64_t>() > 0; }

void PeriodicAverage::average(const FlatBuckets::Visit& fill, const FlatBuckets::Visit& take) {
  const auto reduce = [&](const at::Tensor& bucket) {
    const Stopwatch exposed;
    allreduce(comm_, bucket, ReduceOp::average);
    exposed_time_ += exposed.elapsed();
  };
  buckets_.exchange(fill, reduce, take);
  bytes_communicated_ += buckets_.bytes();
  *steps_.tensor.mutable_data_ptr<int64_t>() = 0;
}

NamedShard PeriodicAverage::counter() const { return steps_; }

}  // namespace tw

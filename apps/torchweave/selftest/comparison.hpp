// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "part.hpp"

namespace tw::tool::selftest {

/// Collects the differences that this rank finds.
class Comparison {
 public:
  /// Notes `what` as different unless `same`.
  void expect(bool same, const std::string& what);
  /// Expects |ours - reference| <= tolerance * norm, in the 2-norm. @param norm of the whole tensor, of which `reference` may be a slice
  void expect_near(const at::Tensor& ours, const at::Tensor& reference, double norm, double tolerance, const std::string& what);
  /// The same for the parameters among `shards`: each is compared with its place in the tensor of that name in `whole`.
  void expect_near(const std::vector<NamedShard>& shards, const std::vector<NamedTensor>& whole, double tolerance);
  /// Passed, or failed with the first difference and the number of the others.
  Outcome outcome() const;

 private:
  int different_ = 0;
  std::string first_;
};

}  // namespace tw::tool::selftest

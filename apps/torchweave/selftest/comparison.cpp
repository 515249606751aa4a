// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

namespace tw::tool::selftest {

void Comparison::expect(bool same, const std::string& what) {
  if (same) return;
  if (different_++ == 0) first_ = what;
}

void Comparison::expect_near(const at::Tensor& ours, const at::Tensor& reference, double norm, double tolerance, const std::string& what) {
  if (ours.sizes() != reference.sizes()) return expect(false, what + " has a different shape");
  const double difference = (ours.detach() - reference.detach()).norm().item<double>();
  expect(difference <= tolerance * norm, concat(what, " differs by ", brief_text(difference), ", at a norm of ", brief_text(norm)));  // NaN fails
}

void Comparison::expect_near(const std::vector<NamedShard>& shards, const std::vector<NamedTensor>& whole, double tolerance) {
  for (const NamedShard& shard : shards) {
    if (shard.kind != ShardKind::parameter) continue;
    const auto found = std::ranges::find(whole, shard.name, &NamedTensor::name);
    if (found == whole.end()) {
      expect(false, shard.name + " is not a parameter of the reference");
      continue;
    }
    at::Tensor reference = found->tensor.detach();
    for (int64_t d = 0; d < reference.dim(); ++d) reference = reference.narrow(d, shard.offsets.at(static_cast<size_t>(d)), shard.tensor.size(d));
    expect_near(shard.tensor, reference, found->tensor.detach().norm().item<double>(), tolerance, shard.name);
  }
}

Outcome Comparison::outcome() const {
  if (different_ == 0) return {};
  return {Verdict::failed, different_ == 1 ? first_ : concat(first_, "; ", different_ - 1, " more differences")};
}

}  // namespace tw::tool::selftest

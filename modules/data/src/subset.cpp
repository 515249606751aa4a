// SPDX-License-Identifier: Apache-2.0
#include <tw/data/subset.hpp>

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>
#include <utility>

namespace tw {
namespace {

void expect_count(int64_t count, int64_t samples) {
  TW_EXPECTS(count >= 0 && count <= samples, "hold_out: count must be at least 0 and at most the number of samples, ", samples, ", got ", count);
}

Holdout divided(int64_t samples, const std::vector<int64_t>& held_out) {
  std::vector<bool> out(static_cast<size_t>(samples));
  for (const int64_t each : held_out) out[static_cast<size_t>(each)] = true;
  Holdout parts;
  for (int64_t i = 0; i < samples; ++i) (out[static_cast<size_t>(i)] ? parts.held_out : parts.kept).push_back(i);
  return parts;
}

/// A class, and the number of its samples that are held out: at first its share, rounded down.
struct Stratum {
  std::vector<int64_t> members;
  int64_t count = 0;
  int64_t rest = 0;  // remainder of the rounding, times the number of samples
};

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> indices) : whole_(std::move(whole)), indices_(std::move(indices)) {
  for (const int64_t index : indices_) {
    TW_EXPECTS(index >= 0 && index < whole_->size(), "the whole data set has no sample ", index, "; the number of its samples is ", whole_->size());
  }
}

Batch Subset::batch(std::span<const int64_t> indices) const {
  std::vector<int64_t> of_whole;
  of_whole.reserve(indices.size());
  for (const int64_t index : indices) {
    TW_EXPECTS(index >= 0 && index < size(), "there is no sample ", index, "; the number of samples is ", size());
    of_whole.push_back(indices_[static_cast<size_t>(index)]);
  }
  return whole_->batch(of_whole);
}

std::vector<at::Tensor> Subset::memory() const {
  std::vector<at::Tensor> memory = whole_->memory();
  if (!memory.empty()) memory.push_back(at::tensor(indices_, at::kLong));
  return memory;
}

Holdout hold_out(int64_t samples, int64_t count, uint64_t seed) {
  expect_count(count, samples);
  std::vector<int64_t> order = random_permutation(samples, seed, 0);
  order.resize(static_cast<size_t>(count));
  return divided(samples, order);
}

// By largest remainder; ties go to the lower class.
Holdout hold_out(const at::Tensor& classes, int64_t count, uint64_t seed) {
  TW_EXPECTS(classes.dim() == 1 && !classes.is_floating_point(), "classes must be integers [n], got ", classes.scalar_type(), ' ', classes.sizes());
  const int64_t samples = classes.size(0);
  expect_count(count, samples);
  const at::Tensor values = classes.cpu().to(at::kLong).contiguous();
  std::map<int64_t, Stratum> strata;
  for (int64_t i = 0; i < samples; ++i) strata[values.const_data_ptr<int64_t>()[i]].members.push_back(i);
  std::vector<Stratum*> by_rest;
  int64_t left = count;
  for (auto& [name, stratum] : strata) {
    const int64_t product = count * static_cast<int64_t>(stratum.members.size());
    stratum.count = product / samples;
    stratum.rest = product % samples;
    left -= stratum.count;
    by_rest.push_back(&stratum);
  }
  std::ranges::stable_sort(by_rest, std::ranges::greater(), &Stratum::rest);
  for (int64_t i = 0; i < left; ++i) ++by_rest[static_cast<size_t>(i)]->count;
  std::vector<int64_t> held_out;
  for (const auto& [name, stratum] : strata) {
    const std::vector<int64_t> order = random_permutation(static_cast<int64_t>(stratum.members.size()), seed, static_cast<uint64_t>(name));
    for (int64_t i = 0; i < stratum.count; ++i) held_out.push_back(stratum.members[static_cast<size_t>(order[static_cast<size_t>(i)])]);
  }
  return divided(samples, held_out);
}

}  // namespace tw

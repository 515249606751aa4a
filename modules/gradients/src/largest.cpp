// SPDX-License-Identifier: Apache-2.0
#include "largest.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>
#include <vector>

namespace tw {
namespace {

constexpr int bin_bits = 16;
constexpr int64_t bins = int64_t{1} << bin_bits;

// Without their sign, floating-point numbers are ordered like their bits. Numbers with the same leading bits form a bin, and all numbers of higher
// bins are larger. Only the bin of the k-th largest number needs sorting. That takes two passes over memory; a heap of k takes a hundred times k
// comparisons.
template <class Bits, class Number>
at::Tensor by_histogram(const Number* values, int64_t n, int64_t k) {
  const auto magnitude_at = [values](int64_t i) { return std::bit_cast<Bits>(values[i]) & (static_cast<Bits>(~Bits{0}) >> 1); };
  constexpr int shift = 8 * sizeof(Bits) - 1 - bin_bits;
  std::vector<int64_t> counts(bins);
  for (int64_t i = 0; i < n; ++i) ++counts[magnitude_at(i) >> shift];
  int64_t edge = bins - 1;
  int64_t of_edge = k;  // still to be found in the edge bin
  for (; counts[static_cast<size_t>(edge)] < of_edge; --edge) of_edge -= counts[static_cast<size_t>(edge)];

  at::Tensor places = at::empty({k}, at::TensorOptions().dtype(at::kLong));
  auto* next = places.mutable_data_ptr<int64_t>();
  std::vector<std::pair<Bits, int64_t>> candidates;
  candidates.reserve(static_cast<size_t>(counts[static_cast<size_t>(edge)]));
  for (int64_t i = 0; i < n; ++i) {
    const Bits magnitude = magnitude_at(i);
    const auto bin = static_cast<int64_t>(magnitude >> shift);
    if (bin > edge) *next++ = i;
    if (bin == edge) candidates.emplace_back(magnitude, i);
  }
  const auto end = candidates.begin() + of_edge;
  std::nth_element(candidates.begin(), end - 1, candidates.end(), std::greater<>());
  for (auto candidate = candidates.begin(); candidate != end; ++candidate) *next++ = candidate->second;
  return places;
}

}  // namespace

at::ScalarType type_of_places(int64_t n) { return n - 1 <= std::numeric_limits<int32_t>::max() ? at::kInt : at::kLong; }

at::Tensor places_of_largest(const at::Tensor& values, int64_t k) {
  const int64_t n = values.numel();
  if (!values.is_cpu() || n < bins) return std::get<1>(at::topk(values.abs(), k, 0, /*largest=*/true, /*sorted=*/false));
  if (values.scalar_type() == at::kFloat) return by_histogram<uint32_t>(values.const_data_ptr<float>(), n, k);
  return by_histogram<uint64_t>(values.const_data_ptr<double>(), n, k);
}

}  // namespace tw

// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/counted.hpp>

#include <set>
#include <string>
#include <tw/comm/typed_objects.hpp>

namespace tw {
namespace {

/// A part of the whole model.
struct PartKey {
  std::string name;
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  static constexpr auto fields = std::tuple(&PartKey::name, &PartKey::offsets, &PartKey::sizes);
  auto operator<=>(const PartKey&) const = default;
};

PartKey key_of(const OptimizedTensor& tensor) {
  if (tensor.slices.empty()) return {};
  const NamedShard& first = tensor.slices.front();
  return {first.name, first.offsets, first.tensor.sizes().vec()};
}

}  // namespace

std::vector<uint8_t> counted_here(const Communicator* ranks, const std::vector<OptimizedTensor>& tensors) {
  if (ranks == nullptr) return std::vector<uint8_t>(tensors.size(), 1);
  std::vector<PartKey> mine;
  for (const OptimizedTensor& each : tensors) mine.push_back(key_of(each));
  const auto of_ranks = allgather_objects(*ranks, mine);
  std::set<PartKey> before;
  for (int rank = 0; rank < ranks->rank(); ++rank)
    before.insert(of_ranks[static_cast<size_t>(rank)].begin(), of_ranks[static_cast<size_t>(rank)].end());
  std::vector<uint8_t> counted;
  for (const PartKey& each : mine) counted.push_back(before.contains(each) ? 0 : 1);
  return counted;
}

}  // namespace tw

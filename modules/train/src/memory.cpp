// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <ranges>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/train/memory.hpp>

namespace tw {

template <>
struct Fields<train::MemoryPeak> {
  static constexpr auto all = std::tuple(&train::MemoryPeak::held, &train::MemoryPeak::during, &train::MemoryPeak::step);
};
template <>
struct Fields<train::StepMemory::Moment> {
  using Moment = train::StepMemory::Moment;
  static constexpr auto all = std::tuple(&Moment::seconds, &Moment::during, &Moment::held);
};
template <>
struct Fields<train::StepMemory> {
  static constexpr auto all = std::tuple(&train::StepMemory::rank, &train::StepMemory::step, &train::StepMemory::moments);
};

}  // namespace tw

namespace tw::train {

const char* name_of(MemoryUse use) {
  switch (use) {
    case MemoryUse::parameters: return "parameters";
    case MemoryUse::gradients: return "gradients";
    case MemoryUse::optimizer: return "optimizer";
    case MemoryUse::buffers: return "buffers";
    case MemoryUse::activations: break;
  }
  return "activations";
}

int64_t MemoryByUse::together() const noexcept { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

std::vector<MemoryPeak> peaks_of_ranks(const Communicator& comm, const MemoryPeak& mine) { return allgather_objects(comm, mine); }

StepMemory step_of_rank(const Communicator& comm, Rank root, int64_t step, const std::vector<MemorySample>& samples) {
  StepMemory mine{.rank = root, .step = step, .moments = {}};
  for (const auto& [time, during, held] : samples) mine.moments.push_back({Seconds(time - samples.front().time).count(), during, held});
  return broadcast_object(comm, mine, root);
}

int worst_rank(const std::vector<MemoryPeak>& by_rank) {
  const auto worst = std::ranges::max_element(by_rank, {}, [](const MemoryPeak& peak) { return peak.held.together(); });
  return static_cast<int>(worst - by_rank.begin());
}

std::string memory_text(const std::vector<MemoryPeak>& by_rank) {
  const auto worst = by_rank.begin() + worst_rank(by_rank);
  const auto mib = [](int64_t bytes) { return fixed_text(static_cast<double>(bytes) / (1 << 20), 1); };
  const auto use_text = [&](size_t use) { return concat(name_of(static_cast<MemoryUse>(use)), ' ', mib(worst->held.bytes[use])); };
  return concat("at most ", mib(worst->held.together()), " MiB, on rank ", worst_rank(by_rank), " (", worst->during,
                "): ", joined(std::views::iota(size_t{0}, memory_uses), ", ", use_text));
}

}  // namespace tw::train

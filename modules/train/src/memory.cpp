// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/train/memory.hpp>

namespace tw {

template <>
struct Fields<MemoryPeak> {
  static constexpr auto all = std::tuple(&MemoryPeak::held, &MemoryPeak::during, &MemoryPeak::step);
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
  return concat("at most ", fixed_text(static_cast<double>(worst->held.together()) / (1 << 20), 1), " MiB, on rank ", worst_rank(by_rank), " (",
                worst->during, "): ", worst->held.describe());
}

}  // namespace tw::train

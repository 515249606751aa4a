// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iomanip>
#include <numeric>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/text_stream.hpp>
#include <tw/comm/objects.hpp>
#include <tw/train/memory.hpp>

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

std::vector<MemoryPeak> peaks_of_ranks(const Communicator& comm, const MemoryPeak& mine) {
  TextWriter text;
  for (const int64_t bytes : mine.held.bytes) text << bytes << ' ';
  text << mine.step << ' ' << mine.during;
  std::vector<MemoryPeak> peaks;
  for (const std::string& each : allgather_strings(comm, text.str())) {
    TextReader in(each);
    MemoryPeak& peak = peaks.emplace_back();
    for (int64_t& bytes : peak.held.bytes) in >> bytes;
    in >> peak.step >> peak.during;
  }
  return peaks;
}

StepMemory step_of_rank(const Communicator& comm, Rank root, int64_t step, const std::vector<MemorySample>& samples) {
  TextWriter text;
  text << std::setprecision(17) << step;
  for (const auto& [time, during, held] : samples) {
    text << ' ' << Seconds(time - samples.front().time).count() << ' ' << during;
    for (const int64_t bytes : held.bytes) text << ' ' << bytes;
  }
  StepMemory memory;
  memory.rank = root;
  TextReader in(broadcast_string(comm, text.str(), root));
  in >> memory.step;
  for (StepMemory::Moment moment; in >> moment.seconds >> moment.during;) {
    for (int64_t& bytes : moment.held.bytes) in >> bytes;
    memory.moments.push_back(moment);
  }
  return memory;
}

int worst_rank(const std::vector<MemoryPeak>& by_rank) {
  const auto worst = std::ranges::max_element(by_rank, {}, [](const MemoryPeak& peak) { return peak.held.together(); });
  return static_cast<int>(worst - by_rank.begin());
}

std::string memory_text(const std::vector<MemoryPeak>& by_rank) {
  const auto worst = by_rank.begin() + worst_rank(by_rank);
  const auto mib = [](int64_t bytes) { return fixed_text(static_cast<double>(bytes) / (1 << 20), 1); };
  std::string uses;
  for (size_t use = 0; use < memory_uses; ++use) {
    uses += concat(uses.empty() ? "" : ", ", name_of(static_cast<MemoryUse>(use)), ' ', mib(worst->held.bytes[use]));
  }
  return concat("at most ", mib(worst->held.together()), " MiB, on rank ", worst_rank(by_rank), " (", worst->during, "): ", uses);
}

}  // namespace tw::train

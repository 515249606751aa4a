// SPDX-License-Identifier: Apache-2.0
#include "bench_figures.hpp"

#include <algorithm>
#include <tw/base/number_text.hpp>

namespace tw::tool {
namespace {

constexpr int64_t float_bytes = 4;

// Whether the message has a part for every rank.
bool has_parts(Collective operation) {
  return operation == Collective::allgather || operation == Collective::reduce_scatter || operation == Collective::alltoall;
}

// Value below which `share` of the sorted `values` lies, by linear interpolation.
double percentile(const std::vector<double>& values, double share) {
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double bus_share(Collective operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Collective::allreduce: return 2 * others;
    case Collective::allgather:
    case Collective::reduce_scatter: return others;
    default: return 1;
  }
}

}  // namespace

const std::vector<Collective>& bench_operations() {
  static const std::vector<Collective> all{Collective::barrier,   Collective::broadcast,      Collective::allreduce, Collective::reduce,
                                           Collective::allgather, Collective::reduce_scatter, Collective::alltoall,  Collective::send};
  return all;
}

std::string bench_name(Collective operation) { return operation == Collective::send ? "ping_pong" : std::string(name_of(operation)); }

std::vector<int64_t> message_sizes(Collective operation, int64_t min_bytes, int64_t max_bytes, int ranks) {
  if (operation == Collective::barrier) return {0};
  const int64_t unit = float_bytes * (has_parts(operation) ? ranks : 1);
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t bytes) {
    const int64_t rounded = std::max<int64_t>(1, bytes / unit) * unit;
    if (sizes.empty() || rounded > sizes.back()) sizes.push_back(rounded);
  };
  for (int64_t bytes = std::max<int64_t>(1, min_bytes); bytes < max_bytes; bytes *= 4) add(bytes);
  add(max_bytes);
  return sizes;
}

int default_rounds(int64_t bytes) {
  constexpr int64_t bytes_in_all = int64_t{16} << 20;
  return static_cast<int>(std::clamp<int64_t>(bytes_in_all / std::max<int64_t>(1, bytes), 10, 200));
}

Times summarise(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  const double median = percentile(us, 0.5);
  return {median, (percentile(us, 0.9) - percentile(us, 0.1)) / median};
}

Bandwidth bandwidth(Collective operation, int64_t bytes, int ranks, double us) {
  const double algorithm = static_cast<double>(bytes) / (1e3 * us);  // bytes / us = 10^6 bytes / s
  return {algorithm, algorithm * bus_share(operation, ranks)};
}

std::string size_text(int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int64_t unit_bytes = 1;
  const char* const* unit = units;
  while (unit != std::end(units) - 1 && bytes >= 1024 * unit_bytes) {
    unit_bytes *= 1024;
    ++unit;
  }
  return fixed_text(static_cast<double>(bytes) / static_cast<double>(unit_bytes), bytes % unit_bytes == 0 ? 0 : 1) + ' ' + *unit;
}

}  // namespace tw::tool

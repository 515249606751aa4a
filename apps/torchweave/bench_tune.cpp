// SPDX-License-Identifier: Apache-2.0
#include "bench_tune.hpp"

#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

namespace tw::tool {
namespace {

std::string milliseconds(double us) { return brief_text(us / 1e3, 3) + " ms"; }

bool is_selected(const Measurement& measurement) {
  const bool has_bytes = measurement.operation != Collective::barrier && measurement.operation != Collective::send;
  return has_bytes && measurement.backend.find('/') == std::string::npos;  // excludes backends that need special tensors
}

}  // namespace

void Tuning::add(const Measurement& measurement) {
  if (is_selected(measurement)) times_[measurement.operation][measurement.bytes].emplace(measurement.times.median_us, measurement.backend);
}

algorithms::Selection Tuning::selection() const {
  std::vector<algorithms::Choice> choices;
  for (const auto& [operation, by_size] : times_) {
    for (auto size = by_size.begin(); size != by_size.end(); ++size) {
      const auto fastest = size->second.begin();
      const auto next = std::next(fastest);
      std::string reason = concat("measured with ", size_text(size->first), ": ", milliseconds(fastest->first));
      if (next != size->second.end()) reason += concat(", ", next->second, " ", milliseconds(next->first));
      const bool is_last = std::next(size) == by_size.end();
      const int64_t largest = is_last ? std::numeric_limits<int64_t>::max() : size->first + (std::next(size)->first - size->first) / 3;
      const bool goes_on = !choices.empty() && choices.back().collective == operation && choices.back().backend == fastest->second;
      if (goes_on) {
        choices.back().largest_bytes = largest;
      } else {
        choices.push_back({operation, largest, fastest->second, reason});
      }
    }
  }
  return algorithms::Selection(std::move(choices));
}

}  // namespace tw::tool

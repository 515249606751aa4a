// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <array>
#include <ranges>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

namespace tw::pipeline {

std::string ms(double seconds) { return fixed_text(1e3 * seconds, seconds < 1 ? 2 : 0) + " ms"; }
std::string gigabytes(double bytes) { return fixed_text(1e-9 * bytes, 2); }
std::string percent(double share) { return fixed_text(100 * share, share < 0.1 ? 1 : 0) + " %"; }

std::string bytes_text(double bytes) {
  constexpr std::array units{" B", " kB", " MB", " GB", " TB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.size(); ++unit) bytes /= 1000;
  return fixed_text(bytes, unit == 0 || bytes >= 99.95 ? 0 : 1) + units[unit];
}

std::string summary(const Plan& plan) {
  const size_t in_row = plan.stages.size() / static_cast<size_t>(stages_per_device(plan.schedule));
  return concat(plan.stages.size(), plan.stages.size() == 1 ? " stage on " : " stages on ", plan.devices(), " devices (",
                joined(plan.stages | std::views::take(in_row), "+", &StagePlan::replicas), "), ", plan.micro_batches,
                plan.micro_batches == 1 ? " micro-batch, " : " micro-batches, ", name_of(plan.schedule), ": ", ms(plan.step_s), " a step");
}

std::string wrong_hash(const Plan& plan, const Profile& profile) {
  return concat("the plan is for a model with hash ", plan.hash, ", but this one has ", profile.hash);
}

}  // namespace tw::pipeline

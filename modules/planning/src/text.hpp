// SPDX-License-Identifier: Apache-2.0
// Numbers and plans as single lines of text.
#pragma once
#include <string>
#include <tw/planning/plan.hpp>

namespace tw::pipeline {

/// "12.34 ms".
std::string ms(double seconds);
/// Without unit.
std::string gigabytes(double bytes);
/// "640 B", "1.5 MB".
std::string bytes_text(double bytes);
/// "12 %".
std::string percent(double share);
/// Stages, devices, micro-batches, schedule and step time.
std::string summary(const Plan& plan);
/// Error text for a plan that belongs to another model.
std::string wrong_hash(const Plan& plan, const Profile& profile);

}  // namespace tw::pipeline

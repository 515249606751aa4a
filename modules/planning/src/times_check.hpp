// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <tw/base/contract.hpp>
#include <tw/planning/simulation.hpp>

namespace tw::pipeline {

/// @throws ContractError unless all times are finite and not negative, and so is the work of this many micro-batches
inline void expect_times(const std::vector<PassTimes>& times, int micro_batches) {
  const auto is_time = [](double time) { return std::isfinite(time) && time >= 0; };
  double sum = 0;
  for (const PassTimes& each : times) {
    TW_EXPECTS(is_time(each.forward) && is_time(each.backward) && is_time(each.transfer) && is_time(each.weights) && each.weights <= each.backward,
               "times of a stage must be finite and at least 0, and `weights` at most `backward`; got forward ", each.forward, ", backward ",
               each.backward, ", weights ", each.weights, ", transfer ", each.transfer);
    sum += micro_batches * (each.forward + each.backward + 2 * each.transfer);
  }
  TW_EXPECTS(std::isfinite(sum), "times of stages are too long: their sum over all micro-batches must be finite");
}

}  // namespace tw::pipeline

// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <map>
#include <tw/base/numbers.hpp>
#include <tw/planning/simulation.hpp>

namespace tw::pipeline {

/// The links between devices of neighbouring stages. Each carries one message at a time.
class Links {
 public:
  /// @param times by stage, kept by reference
  Links(std::vector<int> device_of_stages, const std::vector<PassTimes>& times) : device_of_(std::move(device_of_stages)), times_(times) {
    std::map<std::pair<int, int>, size_t> links;
    const auto link = [&](int from, int to) { return links.emplace(std::pair(from, to), links.size()).first->second; };
    for (size_t before = 0; before + 1 < device_of_.size(); ++before) {
      link_there_.push_back(link(device_of_[before], device_of_[before + 1]));
      link_back_.push_back(link(device_of_[before + 1], device_of_[before]));
    }
    free_.assign(links.size(), 0);
  }

  /// When a message arrives that stage `from` has for its neighbour `to` at time `now`: at once if both are on one device.
  double send(int from, int to, double now) {
    if (device_of_[at(from)] == device_of_[at(to)]) return now;
    const size_t before = at(std::min(from, to));
    double& free = free_[(from < to ? link_there_ : link_back_)[before]];
    return free = std::max(free, now) + times_[before].transfer;
  }

 private:
  std::vector<int> device_of_;  // by stage
  const std::vector<PassTimes>& times_;
  std::vector<size_t> link_there_;  // by the stage before a border, the link from its device to that of the stage after it
  std::vector<size_t> link_back_;
  std::vector<double> free_;  // by link, the time from which it is free
};

}  // namespace tw::pipeline

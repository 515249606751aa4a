// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tw/search/trial.hpp>
#include <tw/train/report.hpp>
#include <vector>

#include "train_config.hpp"

namespace tw::tool {

/// What a search tries out.
struct SearchTask {
  search::Objective objective;
  std::string identity;  ///< all that losses depend on besides the parameters: a journal belongs to it
  std::string loss;      ///< what it is, for people
  int64_t steps = 0;     ///< the most that a trial reports; 0: not known
  StallOptions stall = {};
  /// Figures of a configuration on the test set, which trials do not look at. Collective over `comm`. Empty: there is no test set.
  std::function<train::Figures(const std::vector<double>& values, const Communicator& comm, const std::string& run)> test;
  /// What a person types to have a configuration. @param file that holds it, if any
  std::function<std::string(const std::vector<double>& values, const std::string& file)> command_line;
  /// A configuration as TOML.
  std::function<std::string(const std::vector<double>& values)> toml;
};

}  // namespace tw::tool

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

/// How a search evaluates and describes its trials.
struct SearchTask {
  search::Objective objective;
  std::string identity;  ///< everything besides the parameters that losses depend on; a journal belongs to one identity
  std::string loss;      ///< meaning of the loss, in words
  int64_t steps = 0;     ///< largest step that a trial reports; 0: unknown
  StallOptions stall = {};
  /// Figures of a configuration on the test set, which trials do not use. Collective over `comm`. Empty: there is no test set.
  std::function<train::Figures(const std::vector<double>& values, const Communicator& comm, const std::string& run)> test;
  /// The command that runs a configuration. @param file file with the configuration; empty: none
  std::function<std::string(const std::vector<double>& values, const std::string& file)> command_line;
  /// A configuration as TOML.
  std::function<std::string(const std::vector<double>& values)> toml;
};

}  // namespace tw::tool

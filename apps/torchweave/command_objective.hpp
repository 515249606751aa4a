// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <string>
#include <tw/search/trial.hpp>
#include <vector>

namespace tw::tool {

class ChildProcess;

struct CommandOptions {
  std::string command;                        ///< for /bin/sh; {NAME} stands for a parameter's value, or an empty word if it does not exist
  std::vector<std::string> objectives = {};   ///< values that the program prints; empty: "loss"
  std::vector<std::string> constraints = {};  ///< further values that it prints; each is at most 0 if the configuration is allowed
  double timeout_s = std::numeric_limits<double>::infinity();
  double grace_s = 5;  ///< seconds between SIGTERM and SIGKILL when a program must end
};

/// Runs a program for each trial. The program prints its loss as a line {"loss": 0.5} on standard output, or all objectives and constraints in one
/// such line; the last one counts. It may report intermediate values by lines {"step": 3, "value": 0.7} with ascending steps. Other lines are
/// ignored. A trial fails if its program ends by a signal or with an exit code other than 0, prints no loss, or takes too long. The program does not
/// see MPI's environment variables, so that it may be an MPI program itself.
class CommandObjective {
 public:
  /// @throws ConfigError for each parameter that the command does not name
  CommandObjective(const search::Space& space, CommandOptions options);

  /// Runs a trial. Each worker must have one rank.
  search::Outcome operator()(const search::Configuration& configuration, search::Trial& trial) const;
  /// The command for these values.
  std::string command_for(const search::Space& space, const std::vector<double>& values) const;

 private:
  std::vector<std::string> names() const;
  void expect_success(const ChildProcess& child, bool is_late, bool has_told) const;

  CommandOptions options_;
};

}  // namespace tw::tool

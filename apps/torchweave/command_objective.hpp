// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <string>
#include <tw/search/trial.hpp>
#include <vector>

namespace tw::tool {

class ChildProcess;

struct CommandOptions {
  std::string command;                        ///< for /bin/sh; {NAME} is the value of a parameter, an empty word where it does not exist
  std::vector<std::string> objectives = {};   ///< that it tells; empty: "loss"
  std::vector<std::string> constraints = {};  ///< that it tells as well, each at most 0 where its configuration is allowed
  double timeout_s = std::numeric_limits<double>::infinity();
  double grace_s = 5;  ///< from SIGTERM to SIGKILL, for a program that is to end
};

/// Runs a program for each trial. It tells its loss by a line {"loss": 0.5} on standard output, or objectives and constraints by one with all of
/// their names; the last one counts. It may report on its way by lines {"step": 3, "value": 0.7}, steps ascending; other lines are passed over. A
/// trial fails with a program that ends with another exit code than 0, has no loss to tell, or takes too long. The program does not see MPI's
/// variables, so that it may be an MPI program itself.
class CommandObjective {
 public:
  /// @throws ConfigError for each parameter that the command does not name
  CommandObjective(const search::Space& space, CommandOptions options);

  /// For one rank a worker.
  search::Outcome operator()(const search::Configuration& configuration, search::Trial& trial) const;
  /// The command for these values.
  std::string command_for(const search::Space& space, const std::vector<double>& values) const;

 private:
  std::vector<std::string> names() const;
  void expect_success(const ChildProcess& child, bool is_late, bool has_told) const;

  CommandOptions options_;
};

}  // namespace tw::tool

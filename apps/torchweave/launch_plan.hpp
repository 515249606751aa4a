// SPDX-License-Identifier: Apache-2.0
// How `torchweave launch` builds command lines, reads the output of MPI's launcher, and reacts to deaths. Pure.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "state_report.hpp"

namespace tw::tool {

enum class Launcher { open_mpi, mpich, slurm };

/// A host, and the number of ranks that may run there.
struct Host {
  std::string name;
  int slots = 1;
  bool operator==(const Host&) const = default;
};
/// Parses a list such as "a:2,b": names of hosts, each with its number of ranks, by default 1. @throws Error naming the first entry that is not of
/// this form
std::vector<Host> parse_hosts(const std::string& list);

struct LaunchOptions {
  int ranks = 0;               ///< 0: the number of slots of all hosts
  std::vector<Host> hosts;     ///< empty: this machine, or the hosts of a batch job
  bool bind = true;            ///< whether each rank is bound to its own core; not if there are more ranks than cores
  int cores = 1;               ///< cores of this machine
  std::string slurm_mpi = {};  ///< srun's option --mpi, such as "pmix"; empty: Slurm's default
  int host_timeout_s = 60;     ///< seconds after which Open MPI's launcher gives up a host that does not answer; at least 4
  std::string wrapper;         ///< "gdb", "valgrind" or "perf" around each rank; empty: none
  std::string log_folder;      ///< folder for the files of a wrapper
  bool is_root = false;
  std::vector<std::string> program;
};

int ranks_of(const LaunchOptions& options);

/// The command line of the whole job, for execvp(). @param name the program of the launcher
std::vector<std::string> command_line(Launcher launcher, const std::string& name, const LaunchOptions& options);

/// `words` as one line for /bin/sh.
std::string quoted(const std::vector<std::string>& words);

/// A line that a job prints, with the rank if the launcher names it.
struct JobLine {
  std::optional<int> rank;
  std::string text;
  bool is_state_report = false;  ///< of Open MPI's daemons, for FailureRecord alone
  bool operator==(const JobLine&) const = default;
};
JobLine parse_line(Launcher launcher, const std::string& line);

/// Puts together the lines that each rank prints. Open MPI labels every 4 KiB that it reads from a rank, even in the middle of a line. If such a
/// piece has no line end, output of another rank or a state report may follow in the same line.
class JobOutput {
 public:
  explicit JobOutput(Launcher launcher) : launcher_(launcher) {}
  /// The lines of ranks that are complete after `line`, the next line that the launcher has printed.
  std::vector<JobLine> read(const std::string& line);
  /// The last lines, which lack a line end.
  std::vector<JobLine> finish();

 private:
  std::vector<JobLine> read_ranks(const std::string& line, bool is_ended);

  Launcher launcher_;
  std::map<std::pair<int, bool>, std::string> unfinished_;  // by rank, and whether it is standard error
};

/// The first death in a job, as far as the launcher reports it.
struct Death {
  std::optional<int> rank = {};
  std::string host = {};  ///< empty: not known
  std::string why = {};   ///< such as "signal 9 (Killed)"
  bool of_host = false;   ///< whether the host is to blame rather than the program: a signal such as SIGKILL, or a host that does not answer
  bool is_late = false;   ///< the rank may be alive: the others have given up waiting for it
  bool operator==(const Death&) const = default;
};

/// Reads, line by line, what the launcher reports about deaths, and what a rank's watchdog reports before it ends the job. The first death counts.
class FailureRecord {
 public:
  explicit FailureRecord(Launcher launcher) : launcher_(launcher) {}
  void read(const JobLine& line);
  std::optional<Death> death() const;
  /// What ended the job, once the launcher has failed: the death that it named, otherwise a rank to which others lost the connection, otherwise what
  /// its daemons reported. Open MPI's launcher names no death from before all ranks ran.
  /// @param exit_code of the launcher. @param failure how the launcher ended, such as "exit code 3"
  Death at_exit(std::optional<int> exit_code, const std::string& failure) const;

 private:
  struct Waiting {
    std::string comm;
    std::optional<Death> late;  // the late rank that is to blame
    bool waits_itself = false;
  };

  void read_launcher(const std::string& line);
  void read_watchdog(int rank, const std::string& line);

  Launcher launcher_;
  std::optional<Death> death_;
  bool late_one_waits_ = false;  // the rank in `death_` may itself wait for another one
  std::optional<Death> suspected_;
  std::optional<ReportedEnd> ended_;
  std::optional<int> named_;        // the rank that the next line is about
  bool unconnected_ = false;        // a later line names a host without a connection
  std::string host_;                // from MPICH's lines
  std::string code_;                // from MPICH's lines, until they say whether it was a signal
  std::map<int, Waiting> waiting_;  // by rank
};

struct RestartPolicy {
  int max_restarts = 0;
  int min_ranks = 1;  ///< minimum number of ranks for a restart without the failed host
};

/// What follows a death: another start, after a wait and on these hosts; or none, and the reason.
struct NextStart {
  std::string give_up_because = {};  ///< empty: start again
  std::chrono::seconds wait{0};
  std::vector<Host> hosts = {};
  int ranks = 0;
  std::string without_host = {};
};
/// @param restarts restarts so far. @param progressed whether checkpoints are newer than at the previous death; empty: unknown
NextStart next_start(const LaunchOptions& options, const RestartPolicy& policy, const Death& death, int restarts, std::optional<bool> progressed);

/// The command line of a restart: Torchweave's own commands resume, and `arguments` are appended for any program.
std::vector<std::string> resumed(const std::vector<std::string>& program, const std::vector<std::string>& arguments);

}  // namespace tw::tool

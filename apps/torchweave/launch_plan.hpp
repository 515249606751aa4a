// SPDX-License-Identifier: Apache-2.0
// What `torchweave launch` makes of its options, of what the launcher of MPI prints, and of deaths. Pure.
#pragma once
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tw::tool {

enum class Launcher { open_mpi, mpich, slurm };

/// Where ranks may run.
struct Host {
  std::string name;
  int slots = 1;
  bool operator==(const Host&) const = default;
};
/// Parses a list such as "a:2,b": names of hosts, each with its number of ranks, or 1. @throws Error naming the first entry that is not of this form
std::vector<Host> parse_hosts(const std::string& list);

struct LaunchOptions {
  int ranks = 0;               ///< 0: as many as hosts have slots
  std::vector<Host> hosts;     ///< empty: this machine, or what a batch system has given
  bool bind = true;            ///< each rank to a core of its own, unless there are more ranks than cores
  int cores = 1;               ///< of this machine
  std::string slurm_mpi = {};  ///< by which srun tells ranks of one another, such as "pmix"; empty: Slurm's default
  int host_timeout_s = 60;     ///< without an answer a host is lost after that; 4 at least. Open MPI's launcher is told
  std::string wrapper;         ///< "gdb", "valgrind" or "perf" around each rank; empty: none
  std::string log_folder;      ///< for what a wrapper writes
  bool is_root = false;
  std::vector<std::string> program;
};

int ranks_of(const LaunchOptions& options);

/// Of the whole job, for execvp(). `name` is that of the launcher's program.
std::vector<std::string> command_line(Launcher launcher, const std::string& name, const LaunchOptions& options);

/// `words` as one line for /bin/sh.
std::string quoted(const std::vector<std::string>& words);

/// A line of a job, of a rank where the launcher says of which.
struct JobLine {
  std::optional<int> rank;
  std::string text;
  bool operator==(const JobLine&) const = default;
};
JobLine parse_line(Launcher launcher, const std::string& line);

/// Puts together what each rank prints, line by line. Open MPI labels every 4 KiB that it reads of a rank, also in the middle of a line, and where
/// these end without a line end, another rank's go on in the same line.
class JobOutput {
 public:
  explicit JobOutput(Launcher launcher) : launcher_(launcher) {}
  /// The lines that end with `line`, which the launcher has printed.
  std::vector<JobLine> read(const std::string& line);
  /// Last lines that have no end.
  std::vector<JobLine> finish();

 private:
  Launcher launcher_;
  std::map<std::pair<int, bool>, std::string> unfinished_;  // by rank, and whether it is standard error
};

/// Who died first, as far as the launcher tells.
struct Death {
  std::optional<int> rank = {};
  std::string host = {};  ///< empty: not known
  std::string why = {};   ///< such as "signal 9 (Killed)"
  bool of_host = false;   ///< by what is not the program's doing: a signal that ends without asking, a host that does not answer
  bool is_late = false;   ///< it is perhaps not dead: the others have given up waiting for it
  bool operator==(const Death&) const = default;
};

/// Reads what the launcher says of deaths, and the watchdog of a rank before it ends the job, line by line; the first one counts.
class FailureRecord {
 public:
  explicit FailureRecord(Launcher launcher) : launcher_(launcher) {}
  void read(const JobLine& line);
  std::optional<Death> death() const;
  /// Where nobody is said to have died: whom the others lost.
  const std::optional<Death>& suspected() const noexcept { return suspected_; }

 private:
  struct Waiting {
    std::string comm;
    std::optional<Death> late;  // who keeps the others waiting, of those that it names
    bool waits_itself = false;
  };

  void read_launcher(const std::string& line);
  void read_watchdog(int rank, const std::string& line);

  Launcher launcher_;
  std::optional<Death> death_;
  bool late_one_waits_ = false;  // whom the watchdog named may not be the one
  std::optional<Death> suspected_;
  std::optional<int> named_;        // a rank that the next line is about
  bool unconnected_ = false;        // so is a host that a line to come names
  std::string host_;                // of MPICH's lines
  std::string code_;                // and before it says whether that was a signal
  std::map<int, Waiting> waiting_;  // by rank
};

struct RestartPolicy {
  int max_restarts = 0;
  int min_ranks = 1;  ///< fewer are not worth a start without the host that failed
};

/// What comes after a death: another start, after a while and on these hosts; or none, and why.
struct NextStart {
  std::string give_up_because = {};  ///< empty: start
  std::chrono::seconds wait{0};
  std::vector<Host> hosts = {};
  int ranks = 0;
  std::string without_host = {};
};
/// @param restarts so far. @param progressed whether checkpoints are newer than at the death before; nothing: nobody looks
NextStart next_start(const LaunchOptions& options, const RestartPolicy& policy, const Death& death, int restarts, std::optional<bool> progressed);

/// The program of a start after the first: torchweave goes on where it was, others get `arguments` as well.
std::vector<std::string> resumed(const std::vector<std::string>& program, const std::vector<std::string>& arguments);

}  // namespace tw::tool

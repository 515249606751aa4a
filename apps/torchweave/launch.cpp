// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <thread>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/locality.hpp>

#include "child_process.hpp"
#include "launch_plan.hpp"

namespace tw::tool {
namespace {

struct LaunchArguments {
  LaunchOptions job;
  RestartPolicy policy;
  std::string hosts;
  std::string bind = "cores";
  std::string launcher = "auto";
  std::string mpiexec;
  std::string checkpoints;
  std::vector<std::string> restart_arguments;
  int grace_s = 60;
};

std::atomic<int> signals = 0;  // received so far; each asks the job to end

void count_signal(int) { ++signals; }

void listen_to_signals() {
  struct sigaction action = {};
  action.sa_handler = count_signal;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

bool is_open_mpi() { return Environment::library_version().find("Open MPI") != std::string::npos; }

Launcher find_launcher(const std::string& name) {
  if (name == "openmpi") return Launcher::open_mpi;
  if (name == "mpich") return Launcher::mpich;
  const bool in_slurm = std::getenv("SLURM_JOB_ID") != nullptr;
  if (name == "slurm" || in_slurm) return Launcher::slurm;
  return is_open_mpi() ? Launcher::open_mpi : Launcher::mpich;
}

/// One log for all ranks, and one for each.
class Logs {
 public:
  explicit Logs(const std::string& folder) : folder_(folder) {
    if (folder_.empty()) return;
    std::filesystem::create_directories(folder_);
    merged_ = open("merged.log");
  }

  void begin(int start) {
    if (start == 0 || folder_.empty()) return;
    merged_ << "--- start " << start + 1 << " ---" << std::endl;
    for (auto& [rank, file] : ranks_) file << "--- start " << start + 1 << " ---" << std::endl;
  }

  void write(const JobLine& line) {
    if (folder_.empty()) return;
    merged_ << (line.rank ? concat("rank ", *line.rank, " | ") : std::string("launcher | ")) << line.text << '\n' << std::flush;
    if (!line.rank) return;
    auto [file, is_new] = ranks_.try_emplace(*line.rank);
    if (is_new) file->second = open(concat("rank_", *line.rank, ".log"));
    file->second << line.text << '\n' << std::flush;
  }

 private:
  std::ofstream open(const std::string& name) const {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::ofstream file(path);
    if (!file) throw FileError(path, 0, "cannot be written");
    return file;
  }

  std::string folder_;
  std::ofstream merged_;
  std::map<int, std::ofstream> ranks_;
};

// The newest time of a file below `folder`; in a run's folder, where logs change as well, below its checkpoints/. Empty if there is none.
std::optional<std::filesystem::file_time_type> newest_in(const std::string& folder) {
  std::optional<std::filesystem::file_time_type> newest;
  if (folder.empty()) return newest;
  std::error_code error;
  std::filesystem::path checkpoints = std::filesystem::path(folder) / "checkpoints";
  if (!std::filesystem::exists(checkpoints, error)) checkpoints = folder;
  std::filesystem::recursive_directory_iterator entry(checkpoints, error);
  for (; !error && entry != std::filesystem::end(entry); entry.increment(error)) {
    std::error_code gone;
    const auto time = entry->last_write_time(gone);
    if (!gone && (!newest || time > *newest)) newest = time;
  }
  return newest;
}

/// How one start of the job ended.
struct JobEnd {
  std::optional<Death> death;  // empty if the job succeeded or was asked to end
  int exit_code = 0;
};

// A signal is forwarded as SIGUSR1, on which Torchweave's own commands save and end. A second signal, or the end of the grace period, ends the job by
// SIGTERM and, if that does not suffice, by SIGKILL. So does a death after which the launcher does not end: Open MPI's launcher tells all hosts to
// end, and waits for unreachable ones until TCP gives up, after a quarter of an hour.
JobEnd run_once(Launcher launcher, const LaunchArguments& arguments, const std::string& name, Logs& logs) {
  ChildProcess job("exec " + quoted(command_line(launcher, name, arguments.job)) + " 2>&1", {}, ChildProcess::Input::inherited);
  JobOutput output(launcher);
  FailureRecord failure_record(launcher);
  const auto take = [&](const std::vector<JobLine>& lines) {
    for (const JobLine& line : lines) {
      failure_record.read(line);
      if (line.is_state_report) continue;
      logs.write(line);
      std::cout << line.text << std::endl;
    }
  };
  std::optional<Stopwatch> since_request;
  std::optional<Stopwatch> since_death;
  std::optional<Stopwatch> since_terminate;
  while (!job.ended()) {
    for (const std::string& line : job.read_lines(std::chrono::milliseconds(100))) take(output.read(line));
    if (signals > 0 && !since_request) {
      since_request.emplace();
      job.signal(SIGUSR1);
    }
    if (failure_record.death() && !since_death) since_death.emplace();
    const auto is_over = [](const std::optional<Stopwatch>& watch, int seconds) { return watch && watch->elapsed() > std::chrono::seconds(seconds); };
    if (signals < 2 && !is_over(since_request, arguments.grace_s) && !is_over(since_death, arguments.job.host_timeout_s)) continue;
    if (!since_terminate) {
      since_terminate.emplace();
      job.terminate();
    } else if (since_terminate->elapsed() > std::chrono::seconds(10)) {
      job.kill();
    }
  }
  take(output.finish());
  if (since_request) return {{}, job.exit_code().value_or(1) == 0 ? 0 : static_cast<int>(unfinished)};
  if (job.failure().empty()) return {};
  // The job ended itself: a batch system asked its ranks to, or the training diverged and would diverge again.
  if (job.exit_code() == unfinished || job.exit_code() == diverged) return {{}, *job.exit_code()};
  return {failure_record.at_exit(job.exit_code(), job.failure()), job.exit_code().value_or(1)};
}

std::string describe(const Death& death) {
  if (death.is_late && !death.rank) return death.why;
  std::string text = death.rank ? concat("rank ", *death.rank) : std::string("the job");
  if (!death.host.empty()) text += concat(" on ", death.host);
  return text + (death.is_late ? " " : " died: ") + death.why;
}

int launch(LaunchArguments arguments) {
  const Launcher launcher = find_launcher(arguments.launcher);
  const std::string name = !arguments.mpiexec.empty() ? arguments.mpiexec : launcher == Launcher::slurm ? "srun" : TW_MPIEXEC;
  arguments.job.hosts = parse_hosts(arguments.hosts);
  arguments.job.bind = arguments.bind == "cores";
  arguments.job.cores = cores_here();
  arguments.job.is_root = ::geteuid() == 0;
  if (arguments.policy.min_ranks > ranks_of(arguments.job)) {
    throw Error(concat("--min-ranks: must be at most the ", ranks_of(arguments.job), " ranks of the job, got ", arguments.policy.min_ranks));
  }
  // Slurm's default may be "none", with which Open MPI aborts.
  if (is_open_mpi() && std::getenv("SLURM_MPI_TYPE") == nullptr) arguments.job.slurm_mpi = "pmix";
  const std::vector<std::string> program = arguments.job.program;
  Logs logs(arguments.job.log_folder);
  listen_to_signals();
  std::optional<std::filesystem::file_time_type> newest = newest_in(arguments.checkpoints);
  for (int start = 0;; ++start) {
    logs.begin(start);
    const JobEnd end = run_once(launcher, arguments, name, logs);
    if (!end.death) return end.exit_code;
    std::optional<bool> progressed;
    if (const auto now = newest_in(arguments.checkpoints); !arguments.checkpoints.empty()) progressed = std::exchange(newest, now) != now;
    const NextStart next = next_start(arguments.job, arguments.policy, *end.death, start, progressed);
    if (!next.give_up_because.empty()) {
      std::cerr << "torchweave: " << describe(*end.death) << "; " << next.give_up_because << std::endl;
      return end.exit_code;
    }
    std::cerr << "torchweave: " << describe(*end.death) << "; starting again in " << next.wait.count() << " s on " << next.ranks << " ranks"
              << (next.without_host.empty() ? "" : ", without " + next.without_host) << std::endl;
    for (const Stopwatch watch; watch.elapsed() < next.wait && signals == 0;) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (signals > 0) return unfinished;
    arguments.job.hosts = next.hosts;
    arguments.job.ranks = next.ranks;
    arguments.job.program = resumed(program, arguments.restart_arguments);
  }
}

void describe(CLI::App& app, LaunchArguments& arguments) {
  app.add_option("-n", arguments.job.ranks, "Number of ranks; by default the sum over --hosts, or 1")->check(CLI::Range(1, 1000000));
  app.add_option("--hosts", arguments.hosts,
                 "Hosts and the number of ranks on each, such as a:2,b:2; by default this machine, or the hosts of a batch job")
      ->check([](const std::string& list) { return list.empty() ? std::string("must name a host, such as a:2") : std::string(); });
  app.add_option("--bind", arguments.bind, "cores: bind each rank to its own core, unless there are more ranks than cores; none: do not bind")
      ->check(CLI::IsMember({"cores", "none"}));
  app.add_option("--log-dir", arguments.job.log_folder, "Folder for merged.log, with the output of all ranks, and rank_N.log, with that of rank N");
  app.add_option(
         "--restart", arguments.policy.max_restarts,
         "Maximum number of restarts after a rank has died. Each waits 1, 2, 4, ... at most 60 s, and leaves out a failed host if there are others. "
         "`torchweave train` and `search` continue from their newest checkpoint")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--min-ranks", arguments.policy.min_ranks, "Minimum number of ranks for a restart without the failed host")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--checkpoints", arguments.checkpoints,
                 "Folder of the job's checkpoints; the job is not restarted if nothing in it has changed since the previous death");
  app.add_option("--restart-args", arguments.restart_arguments, "Additional arguments for restarts of your own programs");
  app.add_option("--grace", arguments.grace_s, "Seconds to save and end after a signal; the job receives SIGUSR1")->check(CLI::Range(1, 86400));
  app.add_option(
         "--host-timeout", arguments.job.host_timeout_s,
         "Seconds after which a host that does not answer Open MPI's launcher counts as lost, and after which a job with a dead rank is ended")
      ->capture_default_str()
      ->check(CLI::Range(4, 86400));
  app.add_option("--launcher", arguments.launcher,
                 "Launcher of the ranks; auto: srun in a Slurm job, otherwise the launcher of the MPI that Torchweave was built with")
      ->check(CLI::IsMember({"auto", "openmpi", "mpich", "slurm"}));
  app.add_option("--mpiexec", arguments.mpiexec, "Program that starts the ranks, such as /opt/mpi/bin/mpiexec");
  const auto wrapper = [&](const char* name, const char* meaning) {
    app.add_flag_callback(concat("--", name), [&arguments, name] { arguments.job.wrapper = name; }, meaning);
  };
  wrapper("gdb", "Run each rank in gdb, which prints a backtrace if it crashes");
  wrapper("valgrind", "Run each rank in valgrind");
  wrapper("perf", "Record each rank with perf, into perf.RANK.data");
  app.add_option("program", arguments.job.program, "The program and its arguments, after --")->required();
  app.positionals_at_end();
  app.footer("The exit code is that of the job, or 75 if a signal ended the job and it can be resumed.");
}

}  // namespace

void add_launch(CLI::App& app) {
  CLI::App* command = app.add_subcommand("launch", "Start the ranks of a program, and restart it when a rank dies");
  auto arguments = std::make_shared<LaunchArguments>();
  describe(*command, *arguments);
  command->callback([arguments] { throw CLI::RuntimeError(launch(*arguments)); });
}

}  // namespace tw::tool

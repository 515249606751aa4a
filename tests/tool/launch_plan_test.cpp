// SPDX-License-Identifier: Apache-2.0
#include "launch_plan.hpp"
#include "launcher_match.hpp"

#include "message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>

namespace launch_plan_test {

using namespace tw::tool;
using tw::testing::message_of;
using Words = std::vector<std::string>;

LaunchOptions job(int ranks, const std::string& hosts = "") {
  return {.ranks = ranks, .hosts = parse_hosts(hosts), .cores = 4, .wrapper = "", .log_folder = "", .program = {"prog", "a b"}};
}

std::string line(Launcher launcher, const LaunchOptions& options) { return tw::joined(command_line(launcher, "run", options), " "); }

TEST(Launch, ReadsHosts) {
  EXPECT_EQ(parse_hosts("a:2,b"), (std::vector<Host>{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(ranks_of(job(0, "a:2,b")), 3);
  EXPECT_EQ(ranks_of(job(0)), 1);
  EXPECT_NE(message_of([] { (void)parse_hosts("a,"); }).find("ends with a comma"), std::string::npos);
  for (const char* wrong : {"a:0", "a b", "a,,b", "a:x"})
    EXPECT_NE(message_of([&] { (void)parse_hosts(wrong); }).find("name or name:ranks"), std::string::npos) << wrong;
}

TEST(Launch, SpeaksEachLaunchersLanguage) {
  const std::string in_60_s =
      "--mca oob_tcp_keepalive_time 30 --mca oob_tcp_keepalive_intvl 10 --mca oob_tcp_keepalive_probes 3 --tag-output "
      "--mca state_base_verbose 1 -x OMPI_MCA_state_base_verbose=0 prog a b";
  EXPECT_EQ(line(Launcher::open_mpi, job(2)), "run -n 2 --bind-to core --map-by slot " + in_60_s);
  EXPECT_EQ(line(Launcher::open_mpi, job(8)), "run -n 8 --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 " + in_60_s);
  EXPECT_EQ(line(Launcher::open_mpi, job(0, "a:2,b:2")), "run -n 4 -host a:2,b:2 --bind-to core --map-by slot " + in_60_s);
  EXPECT_EQ(line(Launcher::mpich, job(0, "a:2,b:2")), "run -n 4 -hosts a:2,b:2 -bind-to core -prepend-rank prog a b");
  EXPECT_EQ(line(Launcher::slurm, job(4, "a:2,b:2")), "run -n 4 --nodelist=a,b --cpu-bind=cores --label --kill-on-bad-exit=1 prog a b");
  auto by_pmix = job(4);
  by_pmix.slurm_mpi = "pmix";
  EXPECT_EQ(line(Launcher::slurm, by_pmix), "run -n 4 --mpi=pmix --cpu-bind=cores --label --kill-on-bad-exit=1 prog a b");
  LaunchOptions perf = job(1);
  perf.wrapper = "perf";
  perf.log_folder = "logs";
  EXPECT_NE(line(Launcher::slurm, perf).find("sh -c exec perf record -q -o \"logs/perf.$SLURM_PROCID.data\" \"$@\" perf prog"), std::string::npos);
}

TEST(Launch, HasHostsLookedAtInTime) {
  for (const int seconds : {4, 5, 6, 7, 60, 3600}) {
    LaunchOptions options = job(0, "a,b");
    options.host_timeout_s = seconds;
    const Words words = command_line(Launcher::open_mpi, "run", options);
    const auto value = [&](const std::string& key) { return std::stoi(*(std::find(words.begin(), words.end(), key) + 1)); };
    EXPECT_EQ(value("oob_tcp_keepalive_time") + value("oob_tcp_keepalive_intvl") * value("oob_tcp_keepalive_probes"), seconds);
  }
}

TEST(Launch, QuotesForTheShell) { EXPECT_EQ(quoted({"it's", "a b", ""}), "'it'\\''s' 'a b' ''"); }

TEST(Launch, KnowsWhoseALineIs) {
  EXPECT_EQ(parse_line(Launcher::open_mpi, "[1,12]<stderr>:loss: 3"), (JobLine{12, "loss: 3"}));
  EXPECT_EQ(parse_line(Launcher::open_mpi, "[1,0]<stdout>:"), (JobLine{0, ""}));
  EXPECT_EQ(parse_line(Launcher::mpich, "[3] text [4] more"), (JobLine{3, "text [4] more"}));
  EXPECT_EQ(parse_line(Launcher::slurm, " 3: text: more"), (JobLine{3, "text: more"}));
  EXPECT_EQ(parse_line(Launcher::open_mpi, "[1,0]<stdout>:10%\r20%"), (JobLine{0, "10%\r20%"}));
  const std::string long_text(1 << 20, 'x');
  EXPECT_EQ(parse_line(Launcher::open_mpi, "[1,0]<stdout>:" + long_text), (JobLine{0, long_text}));
  EXPECT_EQ(parse_line(Launcher::slurm, "99999999999999: text"), (JobLine{{}, "99999999999999: text"}));
  EXPECT_EQ(parse_line(Launcher::open_mpi, "mpirun noticed"), (JobLine{{}, "mpirun noticed"}));
}

TEST(Launch, PutsTogetherWhatOpenMpiCutsAndMixes) {
  using Lines = std::vector<JobLine>;
  JobOutput output(Launcher::open_mpi);
  EXPECT_EQ(output.read("[1,0]<stdout>:defa[1,0]<stdout>:ult"), (Lines{{0, "default"}}));
  EXPECT_EQ(output.read("[1,0]<stdout>:beg[1,1]<stdout>:other[1,0]<stderr>:error"), (Lines{{0, "error"}}));
  EXPECT_EQ(output.read("[1,0]<stdout>:in"), (Lines{{0, "begin"}}));
  EXPECT_EQ(output.read("[1,2]<stdout>:"), (Lines{{2, ""}}));
  EXPECT_EQ(output.read("mpirun noticed [1,0] <stdout>:"), (Lines{{{}, "mpirun noticed [1,0] <stdout>:"}}));
  EXPECT_EQ(output.read("mpirun: [1,3]<stdout>:x"), (Lines{{{}, "mpirun: "}, {3, "x"}}));
  EXPECT_EQ(output.finish(), (Lines{{1, "other"}}));
  EXPECT_TRUE(output.finish().empty());
  EXPECT_EQ(JobOutput(Launcher::mpich).read("[3] text [4] more"), (Lines{{3, "text [4] more"}}));
}

TEST(Launch, TellsStateReportsFromWhatRanksPrint) {
  using Lines = std::vector<JobLine>;
  const std::string report = "[n-1.x:00046] [[5,0],0] ACTIVATE PROC [[5,1],0] STATE IOF COMPLETE AT ../orte/mca/iof/hnp/iof_hnp_read.c:306";
  const JobLine of_daemon{.rank = {}, .text = report, .is_state_report = true};
  JobOutput output(Launcher::open_mpi);
  EXPECT_EQ(output.read(report), (Lines{of_daemon}));
  EXPECT_EQ(output.read("[1,0]<stdout>:begin" + report), (Lines{of_daemon}));
  EXPECT_EQ(output.read("[1,0]<stdout>: and end"), (Lines{{0, "begin and end"}}));
  EXPECT_EQ(output.read("[1,1]<stdout>:a[1,0]<stdout>:b" + report), (Lines{of_daemon}));
  EXPECT_EQ(output.read("mpirun: " + report), (Lines{{{}, "mpirun: "}, of_daemon}));
  EXPECT_EQ(output.read("[1,2]<stderr>:" + report), (Lines{{2, report}})) << "a rank that itself runs mpirun";
  EXPECT_EQ(output.read("[1,2]<stdout>:ACTIVATE JOB [a:1] STATE"), (Lines{{2, "ACTIVATE JOB [a:1] STATE"}}));
  EXPECT_EQ(output.finish(), (Lines{{0, "b"}, {1, "a"}}));
  const std::string long_text(1 << 20, '[');
  EXPECT_EQ(output.read("[1,0]<stdout>:" + long_text + " " + report).back(), of_daemon);
}

TEST(Launch, NoticesALauncherThatMpiDoesNotKnow) {
  const auto with = [](std::map<std::string, std::string> set) {
    return [set = std::move(set)](const char* name) {
      const auto found = set.find(name);
      return found == set.end() ? std::nullopt : std::optional(found->second);
    };
  };
  const auto slurm = with({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}});
  EXPECT_NE(launcher_mismatch(slurm, 1).find("Slurm's srun has started 4 processes (SLURM_STEP_NUM_TASKS), but MPI counts 1 rank"),
            std::string::npos);
  EXPECT_EQ(launcher_mismatch(slurm, 4), "");
  EXPECT_FALSE(is_first_process(slurm));
  EXPECT_EQ(launcher_of(slurm), "Slurm's srun");
  EXPECT_EQ(launcher_of(with({})), "");
  EXPECT_TRUE(started_with_others(slurm));
  EXPECT_NE(launcher_mismatch(with({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}), 1), "");
  EXPECT_EQ(launcher_mismatch(with({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}), 1), "");
  EXPECT_EQ(launcher_mismatch(with({{"SLURM_STEP_NUM_TASKS", "4"}}), 1), "");  // in a job, but not started by it
  EXPECT_EQ(launcher_mismatch(with({{"PMI_SIZE", "many"}, {"PMI_RANK", "0"}}), 1), "");
  EXPECT_EQ(launcher_mismatch(with({}), 1), "");
  EXPECT_TRUE(is_first_process(with({})));
  EXPECT_FALSE(started_with_others(with({})));
}

TEST(Launch, HasGdbEndAsTheProgramDoes) {
  LaunchOptions options = job(1);
  options.wrapper = "gdb";
  EXPECT_NE(line(Launcher::mpich, options).find("gdb -q -batch -return-child-result -ex run -ex backtrace -ex echo --args prog"), std::string::npos);
}

std::optional<Death> death(Launcher launcher, const Words& lines) {
  FailureRecord failure_record(launcher);
  for (const std::string& text : lines) failure_record.read(parse_line(launcher, text));
  return failure_record.death();
}

TEST(Launch, KnowsWhoDiedFirstAndOfWhat) {
  EXPECT_EQ(death(Launcher::open_mpi, {"mpirun noticed that process rank 1 with PID 7 on node b exited on signal 9 (Killed).",
                                       "  Process name: [[5,1],0]", "  Exit code:    1"}),
            (Death{1, "b", "signal 9 (Killed)", true}));
  EXPECT_EQ(death(Launcher::open_mpi, {"mpirun noticed that process rank 0 with PID 0 on node a exited on signal 11 (Segmentation fault)."}),
            (Death{0, "a", "signal 11 (Segmentation fault)", false}));
  EXPECT_EQ(death(Launcher::open_mpi, {"  Process name: [[5,1],3]", "  Exit code:    1"}), (Death{3, "", "exit code 1", false}));
  EXPECT_EQ(death(Launcher::open_mpi, {"  HNP daemon   : [[1,0],0] on node a", "  Remote daemon: [[1,0],2] on node c"}),
            (Death{{}, "c", "the host no longer answers", true}));
  EXPECT_EQ(death(Launcher::mpich, {"=   PID 12 RUNNING AT b", "=   EXIT CODE: 9", "=   CLEANING UP REMAINING PROCESSES",
                                    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"}),
            (Death{{}, "b", "signal 9 (Killed)", true}));
  EXPECT_EQ(death(Launcher::mpich, {"=   PID 12 RUNNING AT b", "=   EXIT CODE: 9", "=   CLEANING UP"}), (Death{{}, "b", "exit code 9", false}));
  EXPECT_EQ(death(Launcher::slurm, {"srun: error: n3: tasks 4-7: Killed"}), (Death{4, "n3", "Killed", true}));
  EXPECT_EQ(death(Launcher::slurm, {"srun: error: n3: task 5: Killed"}), (Death{5, "n3", "Killed", true}));
  EXPECT_EQ(death(Launcher::slurm, {"loss: 3"}), std::nullopt);
}

// What Open MPI 4.1.4 prints, in this order, if the launcher knows of a death before it knows that all ranks run.
Words death_at_the_start(const std::string& state) {
  const auto report = [](const std::string& daemon, const std::string& process, const std::string& what) {
    return daemon + " ACTIVATE PROC " + process + " STATE " + what + ":352";
  };
  const std::string first = "[a:00046] [[5,0],0]", second = "[b:00053] [[5,0],1]";
  const std::string by_another = " AT ../orte/mca/plm/base/plm_base_receive.c", by_itself = " AT ../orte/mca/odls/base/odls_base_default_fns.c";
  return {report(second, "[[5,1],1]", "RUNNING" + by_itself),
          report(first, "[[5,1],0]", "RUNNING" + by_itself),
          report(first, "[[5,1],1]", state + by_another),
          report(second, "[[5,1],1]", state + by_itself),
          "Primary job  terminated normally, but 1 process returned",
          "a non-zero exit code. Per user-direction, the job has been aborted.",
          "[a:00046] [[5,0],0] ACTIVATE JOB [5,1] STATE RUNNING AT ../orte/mca/state/base/state_base_fns.c:692",
          report(first, "[[5,1],0]", "NORMALLY TERMINATED AT ../orte/mca/state/base/state_base_fns.c"),
          report(second, "[[5,1],1]", "KILLED BY INTERNAL COMMAND" + by_itself)};
}

Death death_at_exit(const Words& lines, int code) {
  JobOutput output(Launcher::open_mpi);
  FailureRecord failure_record(Launcher::open_mpi);
  for (const std::string& text : lines) {
    for (const JobLine& each : output.read(text)) failure_record.read(each);
  }
  return failure_record.at_exit(code, tw::concat("exit code ", code));
}

TEST(Launch, KnowsWhoDiedBeforeAllRanksRan) {
  const Words by_signal = death_at_the_start("ABORTED BY SIGNAL");
  EXPECT_EQ(death_at_exit(by_signal, 137), (Death{1, "b", "signal 9 (Killed)", true}));
  EXPECT_EQ(death_at_exit(by_signal, 139), (Death{1, "b", "signal 11 (Segmentation fault)", false}));
  EXPECT_EQ(death_at_exit(by_signal, 1), (Death{.why = "exit code 1"})) << "not the signal's";
  EXPECT_EQ(death_at_exit(death_at_the_start("EXITED WITH NON-ZERO STATUS"), 3), (Death{1, "b", "exit code 3", false}));
  EXPECT_EQ(death_at_exit(death_at_the_start("WAITPID FIRED"), 3), (Death{.why = "exit code 3"}));
  Words named = by_signal;
  named.emplace_back("mpiexec noticed that process rank 0 with PID 7 on node a exited on signal 9 (Killed).");
  EXPECT_EQ(death_at_exit(named, 137), (Death{0, "a", "signal 9 (Killed)", true})) << "its launcher knows better";
}

TEST(Launch, KnowsHostsThatCannotBeReached) {
  EXPECT_EQ(
      death(Launcher::open_mpi, {"ssh: connect to host c port 22: No route to host\r", "ORTE was unable to reliably start one or more daemons."}),
      (Death{{}, "c", "the host cannot be reached: No route to host", true}));
  EXPECT_EQ(death(Launcher::open_mpi, {"A process or daemon was unable to complete a TCP connection", "to another process:", "  Local host:    c",
                                       "  Remote host:   a", "This is usually caused by a firewall on the remote host. Please"}),
            (Death{{}, "c", "the host cannot reach the launcher", true}));
  EXPECT_EQ(death(Launcher::open_mpi, {"  Local host:    c"}), std::nullopt) << "of another message";
}

TEST(Launch, HearsTheWatchdog) {
  const auto of = [](const std::string& comm) {
    return Words{"[1,0]<stderr>:05:00:00.123 error: [rank 0] rank 0 of '" + comm + "' has waited 6 s in call 7, allreduce mean of 4 float32",
                 "[1,2]<stdout>:  rank 1 is late, says somebody else",
                 "[1,0]<stderr>:  rank 3 is late: last seen 5.1 s ago leaving call 6, barrier",
                 "[1,0]<stderr>:  rank 4 has not responded: it is computing, was stopped, or is waiting elsewhere",
                 "[1,0]<stderr>:  this is longer than EnvironmentOptions::stall_abort: the job ends",
                 "  Process name: [[5,1],0]",
                 "  Exit code:    1"};
  };
  EXPECT_EQ(death(Launcher::open_mpi, of("world/dup")),
            (Death{.rank = 3, .why = "is late: last seen 5.1 s ago leaving call 6, barrier", .is_late = true}));
  EXPECT_EQ(death(Launcher::open_mpi, of("world/data")),
            (Death{.why = "rank 3 of 'world/data' is late: last seen 5.1 s ago leaving call 6, barrier", .is_late = true}));
  Words only_warned = of("world");
  only_warned.erase(only_warned.begin() + 4);
  EXPECT_EQ(death(Launcher::open_mpi, only_warned), (Death{0, "", "exit code 1", false}));
}

TEST(Launch, BlamesWhoDoesNotWaitItself) {
  const auto report = [](int rank, const Words& late) {
    const std::string label = "[1," + std::to_string(rank) + "]<stderr>:";
    Words lines{label + "05:00:00.123 error: [rank 0] rank 0 of 'world' has waited 6 s in call 83, allreduce sum of 4 float64"};
    for (const std::string& each : late) lines.push_back(label + "  rank " + each);
    lines.push_back(label + "  this is longer than EnvironmentOptions::stall_abort: the job ends");
    return lines;
  };
  const std::string waits = "1 is late: last seen in call 80, allreduce sum of 26512 float32";
  const std::string silent = "2 has begun this call and does not wait for it: it is computing, or was stopped";
  const Death of_2{.rank = 2, .why = silent.substr(2), .is_late = true};
  EXPECT_EQ(death(Launcher::open_mpi, report(0, {waits, silent})), of_2);
  EXPECT_EQ(death(Launcher::open_mpi, report(0, {silent, waits})), of_2);
  const std::string beginning = "2 is late: last seen 10 s ago beginning call 80, allreduce sum of 26512 float32";
  EXPECT_EQ(death(Launcher::open_mpi, report(0, {waits, beginning})), (Death{.rank = 2, .why = beginning.substr(2), .is_late = true}));
  EXPECT_EQ(death(Launcher::open_mpi, report(0, {waits})), (Death{.rank = 1, .why = waits.substr(2), .is_late = true}));
  const std::string on_another = "1 is late: last seen 10 s ago leaving call 80, barrier, and is in call 3 of 'world', barrier";
  EXPECT_EQ(death(Launcher::open_mpi, report(0, {on_another, silent})), of_2);
  Words both = report(0, {waits});
  for (const std::string& each : report(3, {})) both.push_back(each);
  for (const std::string& each : report(1, {silent})) both.push_back(each);
  for (const std::string& each : report(4, {"5 has not responded: it is computing, was stopped, or is waiting elsewhere"})) both.push_back(each);
  EXPECT_EQ(death(Launcher::open_mpi, both), of_2);
}

TEST(Launch, SuspectsWhomOthersLost) {
  FailureRecord failure_record(Launcher::open_mpi);
  for (const char* text : {"  Local host: b", "  PID:        176", "  Message:    connect() to 10.77.0.1:1024 failed", "  Peer host:  c"})
    failure_record.read({{}, text});
  EXPECT_EQ(failure_record.death(), std::nullopt);
  EXPECT_EQ(failure_record.at_exit(1, "exit code 1"), (Death{{}, "10.77.0.1", "other ranks lost the connection to a rank there", false}));
}

TEST(Launch, StartsAgainAsLongAsThatHelps) {
  const RestartPolicy policy{.max_restarts = 3, .min_ranks = 2};
  const Death of_rank{1, "b", "exit code 1", false};
  const Death of_host{1, "b", "signal 9 (Killed)", true};
  const LaunchOptions three = job(0, "a:2,b:2,c:2");
  const auto next = [&](const Death& death, int restarts, std::optional<bool> progressed, const LaunchOptions& options) {
    return next_start(options, policy, death, restarts, progressed);
  };
  EXPECT_EQ(next(of_rank, 0, {}, three).hosts, three.hosts);
  EXPECT_EQ(next(of_rank, 0, {}, three).wait, std::chrono::seconds(1));
  EXPECT_EQ(next(of_rank, 2, true, three).wait, std::chrono::seconds(4));
  EXPECT_EQ(next(of_host, 0, {}, three).hosts, parse_hosts("a:2,c:2"));
  EXPECT_EQ(next(of_host, 0, {}, three).ranks, 4);
  EXPECT_EQ(next(of_host, 0, {}, three).without_host, "b");
  EXPECT_EQ(next(of_host, 0, {}, job(0, "a.cluster:2,b.cluster:2")).ranks, 2);
  EXPECT_EQ(next(of_host, 0, {}, job(3, "a:2,b:2,c:2")).ranks, 3);
  EXPECT_EQ(next(of_host, 0, {}, job(0, "a:1,b:2")).ranks, 3) << "one rank is too few";
  EXPECT_EQ(next(of_host, 0, {}, job(4)).ranks, 4);
  EXPECT_EQ(next(of_rank, 0, false, three).give_up_because, "") << "the first death may come before the first checkpoint";
  EXPECT_EQ(next(of_rank, 1, false, three).give_up_because, "the job has saved no checkpoint since the previous death");
  EXPECT_EQ(next(of_host, 1, false, three).without_host, "b") << "things are otherwise without it";
  EXPECT_EQ(next(of_host, 1, false, job(0, "a:1,b:2")).give_up_because, "the job has saved no checkpoint since the previous death");
  EXPECT_EQ(next(of_rank, 3, true, three).give_up_because, "the maximum number of restarts, 3, is reached");
}

TEST(Launch, GoesOnWhereItWas) {
  EXPECT_EQ(resumed({"bin/torchweave", "train", "c.toml", "--fresh"}, {}), (Words{"bin/torchweave", "train", "c.toml", "--resume"}));
  EXPECT_EQ(resumed({"torchweave", "train", "c.toml", "--resume"}, {}), (Words{"torchweave", "train", "c.toml", "--resume"}));
  EXPECT_EQ(resumed({"torchweave", "search", "c.toml", "--fresh"}, {}), (Words{"torchweave", "search", "c.toml"}));
  EXPECT_EQ(resumed({"mine", "--fresh"}, {"--from", "last"}), (Words{"mine", "--fresh", "--from", "last"}));
}

}  // namespace launch_plan_test

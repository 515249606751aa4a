// SPDX-License-Identifier: Apache-2.0
#include "launch_plan.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <regex>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/text_stream.hpp>

namespace tw::tool {
namespace {

std::string list_of(const std::vector<Host>& hosts, bool with_slots) {
  return joined(hosts, ",", [&](const Host& host) { return with_slots ? concat(host.name, ':', host.slots) : host.name; });
}

// Whether all ranks run on this machine and outnumber its cores.
bool is_crowded(const LaunchOptions& options) { return options.hosts.empty() && ranks_of(options) > options.cores; }

// Whether the host is to blame: SIGKILL: out of memory, a power cut; SIGBUS: bad memory.
bool kills(int signal) { return signal == 9 || signal == 7; }

void append(std::vector<std::string>& words, const std::vector<std::string>& more) { words.insert(words.end(), more.begin(), more.end()); }

std::vector<std::string> open_mpi_words(const LaunchOptions& options) {
  std::vector<std::string> words;
  if (options.is_root) words.emplace_back("--allow-run-as-root");
  if (!options.hosts.empty()) append(words, {"-host", list_of(options.hosts, true)});
  if (options.bind && !is_crowded(options)) {
    append(words, {"--bind-to", "core", "--map-by", "slot"});
  } else {
    append(words, {"--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  }
  // By default, Open MPI probes a silent host after 300 s, and gives it up 180 s later.
  constexpr int probes = 3;
  const int between = std::max(1, options.host_timeout_s / (2 * probes));
  const int silence = std::max(1, options.host_timeout_s - probes * between);
  append(words, {"--mca", "oob_tcp_keepalive_time", concat(silence), "--mca", "oob_tcp_keepalive_intvl", concat(between), "--mca",
                 "oob_tcp_keepalive_probes", concat(probes)});
  append(words, {"--tag-output"});
  // Open MPI forgets who died if that was before all ranks ran, so its daemons report states (see state_report.hpp); what ranks start does not.
  append(words, {"--mca", "state_base_verbose", "1", "-x", "OMPI_MCA_state_base_verbose=0"});
  return words;
}

std::vector<std::string> mpich_words(const LaunchOptions& options) {
  std::vector<std::string> words;
  if (!options.hosts.empty()) append(words, {"-hosts", list_of(options.hosts, true)});
  append(words, {"-bind-to", options.bind && !is_crowded(options) ? "core" : "none", "-prepend-rank"});
  return words;
}

std::vector<std::string> slurm_words(const LaunchOptions& options) {
  std::vector<std::string> words;
  if (!options.hosts.empty()) append(words, {concat("--nodelist=", list_of(options.hosts, false))});
  if (!options.slurm_mpi.empty()) append(words, {concat("--mpi=", options.slurm_mpi)});
  append(words, {options.bind && !is_crowded(options) ? "--cpu-bind=cores" : "--cpu-bind=none", "--label", "--kill-on-bad-exit=1"});
  return words;
}

const char* rank_variable(Launcher launcher) {
  switch (launcher) {
    case Launcher::open_mpi: return "OMPI_COMM_WORLD_RANK";
    case Launcher::mpich: return "PMI_RANK";
    case Launcher::slurm: return "SLURM_PROCID";
  }
  return "";
}

std::vector<std::string> wrapper_words(Launcher launcher, const LaunchOptions& options) {
  if (options.wrapper == "gdb") {
    // gdb ends with the program's exit code if its own last command succeeds; `backtrace` fails if the program has ended normally.
    return {"gdb", "-q", "-batch", "-return-child-result", "-ex", "run", "-ex", "backtrace", "-ex", "echo", "--args"};
  }
  if (options.wrapper == "valgrind") return {"valgrind", "--error-exitcode=1"};
  if (options.wrapper == "perf") {
    const std::string file = concat(options.log_folder.empty() ? "." : options.log_folder, "/perf.$", rank_variable(launcher), ".data");
    return {"sh", "-c", concat("exec perf record -q -o \"", file, "\" \"$@\""), "perf"};
  }
  return {};
}

/// A label of Open MPI, such as "[1,12]<stderr>:".
struct Label {
  size_t begin = 0;
  size_t end = 0;
  int rank = 0;
  bool is_error = false;
};

// Parsed by hand: lines may be too long for std::regex.
std::optional<Label> label_at(std::string_view line, size_t begin) {
  std::string_view rest = line.substr(begin);
  const auto skip = [&](std::string_view word) {
    const bool is_there = rest.starts_with(word);
    if (is_there) rest.remove_prefix(word.size());
    return is_there;
  };
  const auto number = [&](int& value) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return error == std::errc();
  };
  Label label{.begin = begin};
  int job = 0;
  if (!skip("[") || !number(job) || !skip(",") || !number(label.rank) || !skip("]<std")) return std::nullopt;
  label.is_error = rest.starts_with("err");
  if (!(skip("out") || skip("err")) || !skip(">:")) return std::nullopt;
  label.end = line.size() - rest.size();
  return label;
}

// The first label at or after `from`.
std::optional<Label> next_label(std::string_view line, size_t from) {
  for (size_t at = line.find('[', from); at != std::string_view::npos; at = line.find('[', at + 1)) {
    if (const auto label = label_at(line, at)) return label;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& list) {
  static const std::regex form("([A-Za-z0-9._-]+)(:([1-9][0-9]{0,5}))?");
  std::vector<Host> hosts;
  if (list.ends_with(',')) throw Error(concat("--hosts: '", list, "' ends with a comma; it must be a list of name or name:ranks, such as a:2,b:4"));
  TextReader in(list);
  for (std::string word; std::getline(in, word, ',');) {
    std::smatch match;
    if (!std::regex_match(word, match, form)) throw Error(concat("--hosts: '", word, "' must be name or name:ranks, as in a:2,b:4"));
    hosts.push_back({match[1], match[3].matched ? std::stoi(match[3]) : 1});
  }
  return hosts;
}

int ranks_of(const LaunchOptions& options) {
  if (options.ranks > 0) return options.ranks;
  int slots = 0;
  for (const Host& host : options.hosts) slots += host.slots;
  return std::max(1, slots);
}

std::vector<std::string> command_line(Launcher launcher, const std::string& name, const LaunchOptions& options) {
  std::vector<std::string> words{name, "-n", concat(ranks_of(options))};
  switch (launcher) {
    case Launcher::open_mpi: append(words, open_mpi_words(options)); break;
    case Launcher::mpich: append(words, mpich_words(options)); break;
    case Launcher::slurm: append(words, slurm_words(options)); break;
  }
  append(words, wrapper_words(launcher, options));
  append(words, options.program);
  return words;
}

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "'" : " '";
    for (const char character : word) line += character == '\'' ? std::string("'\\''") : std::string(1, character);
    line += '\'';
  }
  return line;
}

JobLine parse_line(Launcher launcher, const std::string& line) {
  std::string_view rest = line;  // parsed by hand: lines may be too long for std::regex
  const auto skip = [&](std::string_view word) {
    const bool is_there = rest.starts_with(word);
    if (is_there) rest.remove_prefix(word.size());
    return is_there;
  };
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc()) return {};
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  };
  std::optional<int> rank;
  bool is_labelled = false;
  switch (launcher) {
    case Launcher::open_mpi: {
      const auto label = next_label(line, 0);
      is_labelled = label && label->begin == 0;
      if (is_labelled) rank = label->rank;
      if (is_labelled) rest.remove_prefix(label->end);
      break;
    }
    case Launcher::mpich: is_labelled = skip("[") && (rank = number()) && skip("] "); break;
    case Launcher::slurm:
      while (skip(" ")) {
      }
      is_labelled = (rank = number()) && skip(": ");
      break;
  }
  if (!is_labelled) return {{}, line};
  return {rank, std::string(rest)};
}

std::vector<JobLine> JobOutput::read(const std::string& line) {
  if (launcher_ != Launcher::open_mpi) return {parse_line(launcher_, line)};
  const size_t report = find_state_report(line);
  const std::string_view before = std::string_view(line).substr(0, report);
  const bool is_of_a_rank = before.ends_with(">:");  // it follows a label: a program that the rank runs has printed it
  if (report == std::string::npos || is_of_a_rank) return read_ranks(line, true);
  std::vector<JobLine> lines;
  if (!before.empty()) lines = read_ranks(std::string(before), false);
  lines.push_back({.rank = {}, .text = line.substr(report), .is_state_report = true});
  return lines;
}

// @param is_ended whether a line end follows
std::vector<JobLine> JobOutput::read_ranks(const std::string& line, bool is_ended) {
  constexpr size_t longest = size_t{1} << 20;
  auto label = next_label(line, 0);
  if (!label) return {JobLine{{}, line}};
  std::vector<JobLine> lines;
  if (label->begin > 0) lines.push_back({{}, line.substr(0, label->begin)});
  while (label) {
    const auto next = next_label(line, label->end);
    const auto place = unfinished_.try_emplace({label->rank, label->is_error}).first;
    place->second += line.substr(label->end, next ? next->begin - label->end : std::string::npos);
    if ((!next && is_ended) || place->second.size() > longest) {
      lines.push_back({label->rank, std::move(place->second)});
      unfinished_.erase(place);
    }
    label = next;
  }
  return lines;
}

std::vector<JobLine> JobOutput::finish() {
  std::vector<JobLine> lines;
  for (auto& [source, text] : unfinished_) lines.push_back({source.first, std::move(text)});
  unfinished_.clear();
  return lines;
}

void FailureRecord::read(const JobLine& line) {
  constexpr size_t longest = 1000;  // reports of failures are short
  if (line.text.size() > longest) return;
  if (line.is_state_report) {
    if (!ended_) ended_ = parse_end(line.text);
  } else if (line.rank) {
    read_watchdog(*line.rank, line.text);
  } else if (!death_) {
    read_launcher(line.text);
  }
}

// Reads the report of tw::mpi::Stall: a line that a rank has waited, one line for each late rank, and one that the job ends. A late rank may itself
// wait for another one, which the report of a different rank then names.
void FailureRecord::read_watchdog(int rank, const std::string& line) {
  static const std::regex begin(R"(.*rank \d+ of '(.*)' has waited .*)");
  static const std::regex named(R"(  rank (\d+) ((is late|has not responded|waits elsewhere|is in another call|has begun|has left).*))");
  static const std::regex waits(R"((is late: last seen (.* ago )?in|is late: .*, and is in call|waits elsewhere).*)");
  static const std::regex of_all("world(/dup)*");  // communicators in which ranks have the same numbers as in the job
  std::smatch match;
  if (line.find("' has waited ") != std::string::npos && std::regex_match(line, match, begin)) waiting_[rank] = {.comm = match[1], .late = {}};
  const auto found = waiting_.find(rank);
  if (found == waiting_.end()) return;
  Waiting& report = found->second;
  if (line.starts_with("  rank ") && std::regex_match(line, match, named)) {
    const std::string who = match[1];
    const std::string why = match[2];
    const bool waits_itself = std::regex_match(why, waits);
    if (report.late && (waits_itself || !report.waits_itself)) return;
    report.waits_itself = waits_itself;
    report.late = std::regex_match(report.comm, of_all) ? Death{.rank = std::stoi(who), .why = why, .is_late = true}
                                                        : Death{.why = concat("rank ", who, " of '", report.comm, "' ", why), .is_late = true};
  } else if (report.late && line.ends_with("stall_abort: the job ends") && (!death_ || (late_one_waits_ && !report.waits_itself))) {
    death_ = report.late;
    late_one_waits_ = report.waits_itself;
  }
}

void FailureRecord::read_launcher(const std::string& line) {
  static const std::regex by_signal(R"(.*process rank (\d+) with PID \d+ on node (\S+) exited on (signal (\d+) .*)\.)");
  static const std::regex process(R"( *Process name: \[\[\d+,\d+\],(\d+)\].*)");
  static const std::regex code(R"( *Exit code: +(\d+).*)");
  static const std::regex lost(R"(.*Remote daemon: .* on node (\S+).*)");
  static const std::regex unreachable(R"(ssh: connect to host (\S+) port \d+: ([^\r]*)\r?)");
  static const std::regex local_host(R"( *Local host: +(\S+) *)");
  static const std::regex peer(R"( *Peer host: +(\S+) *)");
  static const std::regex no_connection(R"( *Message: +connect\(\) to (\S+):\d+ failed.*)");
  static const std::regex mpich_host(R"(=   PID \d+ RUNNING AT (\S+).*)");
  static const std::regex mpich_code(R"(=   EXIT CODE: (\d+).*)");
  static const std::regex mpich_signal(R"(.*EXIT STRING: (.*) \(signal (\d+)\).*)");
  static const std::regex slurm_end(R"(srun: error: (\S+): tasks? (\d+)[^:]*: (.*))");
  std::smatch match;
  if (std::regex_match(line, match, by_signal)) {
    death_ = Death{std::stoi(match[1]), match[2], match[3], kills(std::stoi(match[4]))};
  } else if (std::regex_match(line, match, process)) {
    named_ = std::stoi(match[1]);
  } else if (named_ && std::regex_match(line, match, code)) {
    death_ = Death{named_, "", concat("exit code ", match[1].str()), false};
  } else if (std::regex_match(line, match, lost)) {
    death_ = Death{{}, match[1], "the host no longer answers", true};
  } else if (std::regex_match(line, match, unreachable)) {
    death_ = Death{{}, match[1], concat("the host cannot be reached: ", match[2].str()), true};
  } else if (line.starts_with("A process or daemon was unable to complete a TCP connection")) {
    unconnected_ = true;
  } else if (unconnected_ && std::regex_match(line, match, local_host)) {
    death_ = Death{{}, match[1], "the host cannot reach the launcher", true};
  } else if (std::regex_match(line, match, peer) || std::regex_match(line, match, no_connection)) {  // a rank reports it before the launcher does
    if (!suspected_) suspected_ = Death{{}, match[1], "other ranks lost the connection to a rank there", false};
  } else if (launcher_ == Launcher::mpich && std::regex_match(line, match, mpich_host)) {
    host_ = match[1];
  } else if (launcher_ == Launcher::mpich && std::regex_match(line, match, mpich_code)) {
    code_ = match[1];
  } else if (launcher_ == Launcher::mpich && std::regex_match(line, match, mpich_signal)) {
    death_ = Death{{}, host_, concat("signal ", match[2].str(), " (", match[1].str(), ")"), kills(std::stoi(match[2]))};
  } else if (launcher_ == Launcher::slurm && std::regex_match(line, match, slurm_end)) {
    death_ = Death{std::stoi(match[2]), match[1], match[3], match[3] == "Killed"};
  }
}

std::optional<Death> FailureRecord::death() const {
  if (!death_ && !code_.empty()) return Death{{}, host_, concat("exit code ", code_), false};
  return death_;
}

Death FailureRecord::at_exit(std::optional<int> exit_code, const std::string& failure) const {
  if (const auto known = death() ? death() : suspected_) return *known;
  // Open MPI's launcher ends with the exit code of the first rank that failed, or with 128 and its signal.
  const int signal = exit_code.value_or(0) - 128;
  if (!ended_ || (ended_->by_signal && signal <= 0)) return {.why = failure};
  Death first{.rank = ended_->rank, .host = ended_->host, .why = failure};
  if (ended_->by_signal) {
    first.why = concat("signal ", signal, " (", ::strsignal(signal), ")");
    first.of_host = kills(signal);
  }
  return first;
}

NextStart next_start(const LaunchOptions& options, const RestartPolicy& policy, const Death& death, int restarts, std::optional<bool> progressed) {
  constexpr int64_t longest_wait = 60;
  if (restarts >= policy.max_restarts) {
    return {.give_up_because = policy.max_restarts == 0 ? "the job is not restarted, since --restart is 0"
                                                        : concat("the maximum number of restarts, ", restarts, ", is reached")};
  }
  const bool is_stuck = restarts > 0 && progressed == false;
  const NextStart give_up{.give_up_because = "the job has saved no checkpoint since the previous death"};
  NextStart next{
      .wait = std::chrono::seconds(std::min(longest_wait, int64_t{1} << std::min(restarts, 10))), .hosts = options.hosts, .ranks = ranks_of(options)};
  if (!death.of_host || death.host.empty()) return is_stuck ? give_up : next;
  LaunchOptions rest = options;
  const auto short_name = [](const std::string& name) { return name.substr(0, name.find('.')); };
  std::erase_if(rest.hosts, [&](const Host& host) { return short_name(host.name) == short_name(death.host); });
  int slots = 0;
  for (const Host& host : rest.hosts) slots += host.slots;
  if (rest.hosts.size() == options.hosts.size() || slots < policy.min_ranks || slots == 0) return is_stuck ? give_up : next;
  next.hosts = rest.hosts;
  next.ranks = std::min(next.ranks, slots);
  next.without_host = death.host;
  return next;
}

std::vector<std::string> resumed(const std::vector<std::string>& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = program;
  const bool is_ours = !words.empty() && std::filesystem::path(words[0]).filename() == "torchweave";
  if (is_ours && words.size() > 1 && words[1] == "train" && std::find(words.begin(), words.end(), "--resume") == words.end()) {
    std::erase(words, "--fresh");
    words.emplace_back("--resume");
  }
  if (is_ours && words.size() > 1 && words[1] == "search") std::erase(words, "--fresh");
  append(words, arguments);
  return words;
}

}  // namespace tw::tool

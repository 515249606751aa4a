// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/number_text.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/threads.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "record.hpp"

namespace tw::tool::selftest {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool names(const std::vector<std::string>& selected, std::string_view part) {
  return std::ranges::any_of(selected, [&](const std::string& name) { return name == part || name == "all"; });
}

/// One line: the first cause, and the number of other ranks with a cause.
std::string why_failed(const std::vector<RankFailure>& failures, int ranks) {
  const auto is_cause = [](const RankFailure& failure) { return failure.kind != RankFailure::Kind::consequence; };
  const auto cause = std::ranges::find_if(failures, is_cause);
  const RankFailure& first = cause == failures.end() ? failures.front() : *cause;
  std::string message = first.message;
  std::ranges::replace(message, '\n', ' ');
  if (ranks == 1) return message;
  const auto others = std::ranges::count_if(failures, is_cause) - 1;
  return concat("rank ", first.rank, ": ", message, others > 0 ? concat(" (and ", others, others == 1 ? " other rank)" : " other ranks)") : "");
}

/// The same on all ranks. Collective.
Outcome run_part(const Communicator& comm, const Part& part, const Conditions& conditions, bool throws_here) {
  if (comm.size() < part.least_ranks) return {Verdict::skipped, concat("needs ", part.least_ranks, " ranks")};
  const Communicator own = comm.dup();
  mpi::set_activity(own, concat("part ", part.name));
  Outcome mine;
  const std::vector<RankFailure> failures = failures_on_all_ranks(comm, [&] {
    mine = revoke_on_exception(own, [&] {
      if (throws_here) throw Error("this failure is planted");
      return part.run(own, conditions);
    });
    if (mine.verdict == Verdict::failed) throw Error(mine.why);
  });
  return failures.empty() ? mine : Outcome{Verdict::failed, why_failed(failures, comm.size())};
}

void print_row(std::string_view part, std::string_view outcome, const std::string& time, std::string_view detail) {
  std::cout << std::left << std::setw(18) << part << std::setw(9) << outcome << std::right << std::setw(8) << time << "  " << detail << std::endl;
}

void print_result(const Result& result) {
  const Outcome& outcome = result.outcome;
  print_row(result.part.name, name_of(outcome.verdict), fixed_text(result.seconds, 2) + " s",
            outcome.verdict == Verdict::passed ? result.part.compares : std::string_view(outcome.why));
}

int64_t count_of(const std::vector<Result>& results, Verdict verdict) {
  return std::ranges::count_if(results, [&](const Result& result) { return result.outcome.verdict == verdict; });
}

std::vector<Result> not_run() {
  std::vector<Result> results;
  for (const Part& part : parts()) results.push_back({part, {Verdict::not_run}});
  return results;
}

}  // namespace

bool run(Environment& mpi, const RunOptions& options) {
  const std::chrono::seconds limit(options.limit);
  mpi.watch(limit / 2, limit);
  const Communicator comm = mpi.world().dup();
  const bool reports = comm.rank() == 0;
  const bool is_last = comm.rank() == comm.size() - 1;
  const bool is_planted = !options.wrong_parts.empty() || !options.throwing_parts.empty();
  set_threads_per_rank(find_topology(comm));
  const nlohmann::ordered_json platform = describe_platform(comm);
  std::vector<Result> results = not_run();
  const auto write_record = [&](bool finished) {
    on_all_ranks(comm, "writing the record (--json chooses its file)", [&] {
      if (reports) replace_file(options.json, record_text(platform, results, finished, is_planted));
    });
  };
  write_record(false);
  const std::filesystem::path folder = absolute_path(options.json).parent_path();
  if (reports) print_row("part", "outcome", "time", "what it compares, or why it did not pass");
  const auto begin = Clock::now();
  for (Result& result : results) {
    const auto begin_of_part = Clock::now();
    const Conditions conditions{folder, is_last && names(options.wrong_parts, result.part.name)};
    result.outcome = run_part(comm, result.part, conditions, is_last && names(options.throwing_parts, result.part.name));
    result.seconds = seconds_since(begin_of_part);
    if (reports) print_result(result);
    write_record(&result == &results.back());
  }
  const int64_t failed = count_of(results, Verdict::failed);
  if (reports) {
    std::cout << count_of(results, Verdict::passed) << " passed, " << failed << " failed, " << count_of(results, Verdict::skipped) << " skipped on "
              << comm.size() << (comm.size() == 1 ? " rank" : " ranks") << " in " << fixed_text(seconds_since(begin), 1) << " s; recorded in "
              << options.json << '\n';
  }
  return failed == 0;
}

}  // namespace tw::tool::selftest

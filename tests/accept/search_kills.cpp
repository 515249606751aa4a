// SPDX-License-Identifier: Apache-2.0
// One run of a search that kill_search.sh kills: it continues from its journal, and prints what the journal had kept.
// Run: mpirun -n RANKS accept_search_kills FOLDER EVALUATIONS ISLANDS RANKS_PER_WORKER PROPAGATOR [TRIAL HOW [TIMES]], where PROPAGATOR is a number.
// The last rank of trial TRIAL ends by SIGKILL, SIGTERM or MPI_Abort, at most TIMES times
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/evolution/named_propagators.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

namespace {

using namespace tw::search;

/// One line for each trial that ended, written by one system call before the search receives the result.
class Diary {
 public:
  explicit Diary(const std::filesystem::path& path) : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw tw::Error("the diary cannot be opened");
  }
  ~Diary() { close(fd_); }
  Diary(const Diary&) = delete;
  Diary& operator=(const Diary&) = delete;

  void enter(int64_t trial, double loss) const {
    const std::string line = tw::concat(trial, ' ', std::hexfloat, loss, '\n');
    if (write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw tw::Error("the diary cannot be written");
  }

 private:
  int fd_;
};

double loss_of(const Configuration& c) { return std::pow(c.real("x"), 2) + std::abs(c.real("y")); }

[[noreturn]] void end_process(const std::string& how) {
  if (how == "MPI_Abort") tw::Environment::abort("a trial ends the job");
  std::raise(how == "SIGTERM" ? SIGTERM : SIGKILL);
  std::abort();
}

int attempts_of(int64_t trial, const std::filesystem::path& folder, const Space& space) {
  const Ledger ledger = read_ledger(folder, space);
  const LedgerEntry* entry = ledger.find(trial);
  return entry == nullptr ? 0 : entry->attempts;
}

std::set<int64_t> ended_trials(const std::filesystem::path& folder, const Space& space) {
  std::set<int64_t> ended;
  for (const LedgerEntry& each : read_ledger(folder, space).trials) {
    if (each.has_ended()) ended.insert(each.individual.trial);
  }
  return ended;
}

/// Number of diary entries that are missing in the journal, at any loss: lost evaluations.
int64_t lost(const std::filesystem::path& diary, const Ledger& ledger) {
  std::multiset<int64_t> entries;
  std::ifstream in(diary);
  int64_t trial = 0;
  for (std::string loss; in >> trial >> loss;) {
    entries.insert(trial);
    const LedgerEntry* entry = ledger.find(trial);
    if (entry != nullptr && entry->individual.state == TrialState::complete && entry->individual.loss != std::strtod(loss.c_str(), nullptr)) {
      throw tw::Error(tw::concat("trial ", trial, " has another loss in the journal"));
    }
  }
  int64_t kept = 0;
  for (const LedgerEntry& each : ledger.trials) kept += static_cast<int64_t>(each.has_ended() && entries.contains(each.individual.trial));
  return static_cast<int64_t>(entries.size()) - kept;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const tw::Environment mpi(argc, argv);
  const std::filesystem::path folder = argv[1];
  const std::filesystem::path diary_path = folder.string() + ".diary";
  const Space space{real("x", -5, 5), real("y", -5, 5)};
  const int64_t deadly = argc > 7 ? std::atoll(argv[6]) : -1;
  const int times = argc > 8 ? std::atoi(argv[8]) : 1000;
  const auto propagators = named_propagators();
  const NamedPropagator& named = propagators[static_cast<size_t>(std::atoi(argv[5])) % propagators.size()];
  const std::set<int64_t> ended = ended_trials(folder, space);
  mpi.world().barrier();  // all ranks have read before any rank writes
  const Diary diary(diary_path);
  const auto objective = [&](const Configuration& c, Trial& trial) -> Outcome {
    if (ended.contains(trial.number())) tw::Environment::abort(tw::concat("trial ", trial.number(), " begins again though it had ended"));
    const bool last = trial.comm().rank() == trial.comm().size() - 1;
    if (last && trial.number() == deadly && attempts_of(deadly, folder, space) <= times) end_process(argv[7]);
    auto random = trial.rng();
    // The work of a trial. The first trials are long, so that they are in flight when another one ends the job.
    const bool is_long = deadly >= 0 && trial.number() < 4;
    std::this_thread::sleep_for(std::chrono::microseconds(is_long ? 500000 : 1000 + random() % 4000));
    trial.comm().barrier();
    if (trial.comm().rank() == 0) diary.enter(trial.number(), loss_of(c));
    return loss_of(c);
  };
  Search search(mpi.world(), space, objective,
                {.islands = std::atoi(argv[3]),
                 .ranks_per_worker = std::atoi(argv[4]),
                 .evaluations = std::atoll(argv[2]),
                 .seed = 1,
                 .journal = folder,
                 .max_attempts = deadly >= 0 ? 2 : 1000,  // random kills may hit a trial again and again
                 .propagator = [&](const WorkerContext& context) {
                   return named.make(context.space, context.evaluations, context.seed, context.worker, context.workers);
                 }});
  const SearchResult result = search.run();
  if (mpi.world().rank() == 0) {
    std::printf("%lld complete, %lld failed, %lld evaluations lost\n", static_cast<long long>(result.complete), static_cast<long long>(result.failed),
                static_cast<long long>(lost(diary_path, read_ledger(folder, space))));
  }
}

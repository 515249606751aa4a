// SPDX-License-Identifier: Apache-2.0
// Journals of searches with every propagator, of which one file is truncated at a random byte, or missing. All searches must continue, keep the
// remaining trials, and reach the requested number of evaluations. Run: mpirun -n WORKERS accept_search_cuts FOLDER [CUTS]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/named_propagators.hpp>
#include <tw/evolution/swarm.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>
#include <utility>
#include <vector>

namespace {

using namespace tw::search;
namespace fs = std::filesystem;

constexpr int64_t evaluations = 60;
constexpr int64_t steps = 9;
constexpr int64_t more = 12;  // additional evaluations of a search that has continued

const Space space{real("x", -5, 5), real("y", -5, 5)};

/// Takes 0 to 100 microseconds, so that workers overtake each other.
Outcome objective(const Configuration& c, Trial& trial) {
  const double loss = std::pow(c.real("x"), 2) + std::abs(c.real("y"));
  auto random = trial.rng();
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 100);
  while (std::chrono::steady_clock::now() < until) {
  }
  for (int64_t step = trial.attach({{"step", at::zeros(1)}}) + 1; step <= steps && trial.report(step, loss + 1.0 / static_cast<double>(step));
       ++step) {
  }
  return loss;
}

SearchOptions with(const NamedPropagator& named) {
  return {.propagator = [&](const WorkerContext& context) {
    return named.make(context.space, context.evaluations, context.seed, context.worker, context.workers);
  }};
}

SearchOptions with(const CmaOptions& options) {
  return {.propagator = [=](const WorkerContext& context) { return std::make_unique<CmaEs>(context.space, options, context.seed); }};
}

SearchOptions with(const SwarmOptions& options) {
  return {.propagator = [=](const WorkerContext& context) { return std::make_unique<Swarm>(context.space, options); }};
}

std::vector<std::pair<std::string, SearchOptions>> searches() {
  std::vector<std::pair<std::string, SearchOptions>> all{
      {"swarm of four", with(SwarmOptions{.particles = 4})},
      {"CMA-ES, passive", with(CmaOptions{.active = false})},
      {"CMA-ES, IPOP", with(CmaOptions{.restarts = CmaOptions::Restarts::ipop})},
      {"CMA-ES, one run", with(CmaOptions{.restarts = CmaOptions::Restarts::none})},
      {"pollination", {.migration = {.copies = true}}},
      {"halving", {.scheduler = [] { return halving_rule({.grace = 1, .eta = 3}); }}},
      {"promotion", {.scheduler = PromotionOptions{{.grace = 1, .eta = 3, .max_steps = steps}}}},
      {"population", {.scheduler = PopulationTrainingOptions{.interval = 3, .max_steps = steps}}},
  };
  for (const NamedPropagator& named : named_propagators()) all.emplace_back(named.name, with(named));
  return all;
}

/// Truncates or removes one of the files.
std::string damage(const fs::path& journal, tw::CounterRng& random) {
  std::vector<JournalFile> files = read_journal(journal);
  const fs::path path = files[index_below(random, files.size())].path;
  if (bernoulli(random, 0.1)) {
    fs::remove(path);
    return path.filename().string() + " removed";
  }
  const size_t bytes = index_below(random, fs::file_size(path));
  fs::resize_file(path, bytes);
  return tw::concat(path.filename().string(), " cut to ", bytes, " bytes");
}

/// Number of trials of `kept` that are missing in `now`, or have another loss.
int64_t lost(const Ledger& kept, const Ledger& now) {
  int64_t count = 0;
  for (const LedgerEntry& each : kept.trials) {
    if (!each.has_ended()) continue;
    const LedgerEntry* entry = now.find(each.individual.trial);
    const bool is_there = entry != nullptr && entry->individual.state == each.individual.state && entry->individual.loss == each.individual.loss;
    count += static_cast<int64_t>(!is_there);
  }
  return count;
}

/// Continues from a journal. @return what is wrong with the result; empty: nothing
std::string continued(const tw::Communicator& comm, SearchOptions options, const Ledger& kept) {
  Search search(comm, space, objective, options);
  const SearchResult result = search.run();
  const Ledger now = read_ledger(options.journal, space);
  if (const int64_t count = lost(kept, now); count > 0) return tw::concat(count, " trials are lost");
  if (const int64_t ended = result.complete + result.pruned; ended != options.evaluations || std::ssize(now.trials) < ended)
    return tw::concat(ended, " evaluations of ", options.evaluations);
  // Each trial is active on exactly one island: none is lost in transit or duplicated.
  const int workers = comm.size();
  const bool first_of_island = comm.rank() % (workers / options.islands) == 0;
  int64_t active = first_of_island ? static_cast<int64_t>(search.population().active()) : 0;
  tw::mpi::allreduce(comm, {&active, 1, tw::ElementType::int64}, tw::ReduceOp::sum);
  if (!options.migration.copies && active != options.evaluations) return tw::concat(active, " individuals count, of ", options.evaluations);
  return {};
}

/// @return whether all searches continued
bool holds(tw::Environment& mpi, const fs::path& folder, const std::string& name, SearchOptions options, int cuts) {
  const tw::Communicator& comm = mpi.world();
  const bool first = comm.rank() == 0;
  const fs::path whole = folder / tw::concat(comm.size(), ' ', name, ' ', options.islands);
  options.evaluations = evaluations;
  options.seed = 1;
  options.max_attempts = 100;
  options.migration.probability = 0.2;
  if (first) fs::remove_all(whole);
  comm.barrier();
  options.journal = whole;
  Search(comm, space, objective, options).run();
  int by_replay = 0;
  for (int cut = 0; cut < cuts; ++cut) {
    tw::CounterRng random(static_cast<uint64_t>(cut), static_cast<uint64_t>(options.islands));
    options.journal = whole.string() + " cut";
    options.evaluations = evaluations;
    if (first) {
      fs::remove_all(options.journal);
      fs::copy(whole, options.journal);
    }
    std::string damages;
    // Every second journal is damaged again after it was continued.
    for (int time = 0; time <= cut % 2; ++time) {
      if (first) damages += (time > 0 ? ", then " : "") + damage(options.journal, random);
      comm.barrier();
      const Ledger kept = read_ledger(options.journal, space);
      comm.barrier();
      if (time > 0) options.evaluations += more;
      const auto tell = [&](const std::string& what) {
        if (first) std::printf("%s, %d islands, cut %d (%s): %s\n", name.c_str(), options.islands, cut, damages.c_str(), what.c_str());
      };
      try {
        if (const std::string wrong = continued(comm, options, kept); !wrong.empty()) {
          tell(wrong);
          return false;
        }
      } catch (const tw::Error& error) {
        tell(error.what());
        throw;
      }
      by_replay += static_cast<int>(time == 0 && read_ledger(options.journal, space).epochs == 1);
      mpi.free_communicators();  // MPI has about ten thousand
    }
  }
  if (first) {
    std::printf("%s, %d workers on %d islands: %d of %d cut journals went on, %d of them by replay\n", name.c_str(), comm.size(), options.islands,
                cuts, cuts, by_replay);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  tw::Environment mpi(argc, argv);
  tw::set_log_level(tw::LogLevel::error);  // warnings about incomplete journals are expected here
  const fs::path folder = argv[1];
  const int cuts = argc > 2 ? std::atoi(argv[2]) : 200;
  bool all = true;
  for (auto& [name, options] : searches()) {
    for (const int islands : {1, 2}) {
      options.islands = islands;
      all = holds(mpi, folder, name, options, cuts) && all;
    }
  }
  if (mpi.world().rank() == 0 && all) std::printf("all went on\n");
  return all ? 0 : 1;
}
